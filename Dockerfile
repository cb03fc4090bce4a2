# Two images: `docker build --target service .` (no torch) and `docker build --target agent .`
FROM python:3.13-slim AS base
WORKDIR /app
RUN useradd --create-home --uid 10001 app
# What the dependencies follow from. They are installed with a package without code, so that their layers are kept as
# long as these files stay as they are.
COPY pyproject.toml constraints.txt LICENSE ./
COPY sizing/version.py sizing/
RUN mkdir executors io_bench mcp_server service service_client && touch README.md

FROM scratch AS code
COPY README.md /
COPY sizing /sizing
COPY executors /executors
COPY io_bench /io_bench
COPY mcp_server /mcp_server
COPY service /service
COPY service_client /service_client

FROM base AS agent
# Which build of torch, by its local version: +cpu, +cu130 and the like, or nothing for what the index has without one,
# which is CUDA for x86. Give the index that has it, where pip's own has not.
ARG TORCH_BUILD=+cpu
ARG TORCH_INDEX_URL=
RUN pip install --no-cache-dir --constraint constraints.txt ${TORCH_INDEX_URL:+--index-url "$TORCH_INDEX_URL"} \
    "torch==$(sed -n 's/^torch==//p' constraints.txt)$TORCH_BUILD"
RUN pip install --no-cache-dir --constraint constraints.txt ".[bench,s3]"
COPY --from=code / ./
RUN pip install --no-cache-dir --no-deps --force-reinstall --constraint constraints.txt .
USER 10001
ENTRYPOINT ["ckpt-bench"]

FROM base AS service
# What sets the type of PDF reports; Debian keeps one version of each.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends fonts-liberation libharfbuzz-subset0 libpango-1.0-0 libpangoft2-1.0-0 \
    && rm -rf /var/lib/apt/lists/* \
    && install --directory --owner app /data
RUN pip install --no-cache-dir --constraint constraints.txt ".[cluster,service,tracing]"
COPY --from=code / ./
RUN pip install --no-cache-dir --no-deps --force-reinstall --constraint constraints.txt .
USER 10001
VOLUME /data
ENV DATABASE_URL=sqlite:////data/checkpoint-sizing.sqlite3
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=2)"]
ENTRYPOINT ["ckpt-serve", "--host", "0.0.0.0"]
