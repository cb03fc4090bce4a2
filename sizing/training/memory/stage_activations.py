"""Activations on a GPU of each pipeline stage: layers and microbatches in flight, and the loss on the last."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sizing.layout import Parallelism
from sizing.layout.stages import StageSpan
from sizing.model.inventory import layers_between
from sizing.training.execution import Execution
from sizing.training.memory.activations import LayerKind, ModelActivations
from sizing.training.memory.layer_activations import layer_activation_bytes


@dataclass(frozen=True, slots=True)
class HeldByStage:
    """Bytes of activations on a GPU of a stage: what waits for the backward pass, and the most that two moments add.

    `kept`: of layers, and of the head its inputs. `kept_logits`: of the loss, until the backward pass has begun.
    `loss`: all that the loss holds of a microbatch, at its max. `layer`: what is computed again of a layer, and what
    its backward pass holds.
    """

    kept: float = 0.0
    kept_logits: float = 0.0
    loss: float = 0.0
    layer: float = 0.0

    def staying(self, fraction: float) -> HeldByStage:
        """The same where but a fraction of what waits stays on the GPU."""
        return self if fraction == 1.0 else replace(self, kept=fraction * self.kept)


class StageActivations:
    """What the stages of a pipeline keep; layers of one kind are counted once."""

    def __init__(self, model: ModelActivations, *, parallelism: Parallelism, execution: Execution) -> None:
        self._model = model
        self._tensor = parallelism.tensor
        self._execution = execution
        self._kinds = [(kind.layers, self._layer(kind, execution)) for kind in model.kinds]
        whole = replace(execution, recomputation="none")
        self._kept_whole = [self._layer(kind, whole) for kind in model.kinds]

    def of_stage(self, span: StageSpan) -> HeldByStage:
        """What a GPU of the first of a span's stages holds, which holds the max of them.

        Layers x microbatches in flight, the embedding's dropout on the first stage, and on the last 2 w h a token, the
        inputs of the last norm and of the head, and V/t logits as LOSSES says.
        Source: Korthikanti et al. 2022, arXiv 2205.05198, section 4.3; LOSSES.

        >>> from sizing.model import catalog
        >>> from sizing.layout.stages import stage_spans
        >>> from sizing.model.inventory import inventory_of
        >>> from sizing.training.losses import LOSSES
        >>> from sizing.training.memory.activations import of_architecture
        >>> from sizing.training.memory.layer_activations import LayerShape
        >>> gpt3, degrees = catalog()["gpt3-175b"].architecture, Parallelism(tensor=8, pipeline=8)
        >>> step = Execution(2048, 1, 64, 8, 1, "1f1b", "selective", num_sharing=8)
        >>> first = stage_spans(inventory_of(gpt3), degrees, num_layers=96)[0]
        >>> whole = of_architecture(LayerShape(gpt3, degrees, 2), loss=LOSSES["vocab-parallel"])
        >>> found = StageActivations(whole, parallelism=degrees, execution=step).of_stage(first)
        >>> found.kept == 8 * (12 * 34 + 1) * 2048 * 12288 / 8
        True
        """
        stage = span.stages.start
        is_last = span.has_head
        in_flight = self._execution.held_of_stage(stage)
        held = self._held(span, num_modules=self._model.num_modules if is_last else 0)
        chunks = [sum(number * kept for number, (kept, _) in chunk) for chunk in held]
        embedding = in_flight * self._embedding() if stage == 0 else 0.0
        waiting = in_flight if self._execution.schedule == "gpipe" else 1.0
        heads = waiting * (1 + self._model.num_modules) if is_last else 0.0
        one_of_them = self._logits(self._model.loss.kept_bytes(self._model.value_bytes))
        return HeldByStage(
            kept=self._execution.held_bytes(stage, chunks)
            + embedding
            + heads * self._head_inputs()
            + (self._passed(span, in_flight) if self._model.keeps_passed else 0.0),
            kept_logits=heads * one_of_them,
            loss=max(0.0, heads - 1) * one_of_them + self._loss() if is_last else 0.0,
            layer=max((moment for chunk in held for number, (_, moment) in chunk if number), default=0.0)
            + max(0.0, waiting - 1) * (one_of_them if is_last else 0.0),
        )

    def _layer(self, kind: LayerKind, execution: Execution) -> tuple[float, float]:
        """What a layer keeps, and what its backward pass holds beside: what is computed again, and gradients."""
        kept, again = layer_activation_bytes(
            kind.kept, hidden_bytes=self._model.hidden_bytes, execution=execution, listed=kind.listed
        )
        return kept, again + execution.num_tokens * kind.kept.working

    def _held(self, span: StageSpan, *, num_modules: int) -> list[list[tuple[int, tuple[float, float]]]]:
        """How many layers of each kind each chunk of a stage has, and what each of them keeps."""
        held = [self._of_chunk(chunk) for chunk in span.chunks]
        number, kept = held[-1][-1]
        held[-1][-1] = number + num_modules, kept
        return held

    def _of_chunk(self, chunk: range) -> list[tuple[int, tuple[float, float]]]:
        """Those that keep all although others are computed again, before those that are as asked."""
        past = self._execution.again(chunk).stop if self._execution.recomputed_layers else chunk.stop
        whole = zip(self._kinds, self._kept_whole, strict=True) if past < chunk.stop else ()
        return [
            *((len(layers_between(layers, past, chunk.stop)), kept) for (layers, _), kept in whole),
            *((len(layers_between(layers, chunk.start, past)), kept) for layers, kept in self._kinds),
        ]

    def _embedding(self) -> float:
        return self._execution.num_tokens * self._model.mask_bytes / self._execution.num_sharing

    def _head_inputs(self) -> float:
        """Of the last norm and of the head; again of each multi-token-prediction module."""
        sharing = self._execution.num_sharing
        of_head = 1 if self._model.kernels.keeps_gathered else 1 / sharing
        return self._execution.num_tokens * self._model.hidden_bytes * (1 / sharing + of_head)

    def _passed(self, span: StageSpan, in_flight: float) -> float:
        """What torch's stages receive, in a buffer for each microbatch and direction, and what they sent forward.

        Source: PyTorch, torch/distributed/pipelining/stage.py, _prepare_forward_infra, _setup_backward_recv_info and
        fwd_cache.
        """
        num_stages, chunks = self._execution.num_stages, len(span.chunks)
        is_first, is_last = span.stages.start == 0, span.has_head
        if num_stages == 1:
            return 0.0
        buffered = self._execution.num_microbatches or in_flight
        received = buffered * (2 * chunks - is_first - is_last)
        sent = in_flight * (chunks - is_last)
        return self._execution.num_tokens * self._model.hidden_bytes / self._execution.num_sharing * (received + sent)

    def _logits(self, bytes_per_logit: float) -> float:
        return self._execution.num_tokens * bytes_per_logit * self._model.vocab_size / self._tensor

    def _loss(self) -> float:
        """The max of the loss itself, and of the head's backward pass: gradients of logits and gathered input."""
        model = self._model
        gradients = (2 if self._execution.num_sharing > 1 else 1) * model.hidden_bytes * self._execution.num_tokens
        of_head = self._logits(model.value_bytes / model.loss.num_chunks) + gradients
        return max(self._logits(model.loss.peak_bytes(model.value_bytes, tensor=self._tensor)), of_head)
