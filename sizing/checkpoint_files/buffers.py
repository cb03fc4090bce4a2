"""Names of tensors that are no parameters: buffers of modules, scales of quantised weights."""

BUFFERS = frozenset(
    {
        "running_mean",
        "running_var",
        "num_batches_tracked",
        "inv_freq",
        "position_ids",
        "masked_bias",
        "_extra_state",
        "weight_scale",
        "weight_scale_inv",
        "input_scale",
        "scales",
        "qzeros",
        "g_idx",
        "SCB",
        "absmax",
        "quant_map",
    }
)
