# Two images: `docker build --target service .` (no torch) and `docker build --target agent .`
FROM python:3.13-slim AS base
WORKDIR /app
RUN useradd --create-home --uid 10001 app
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY sizing sizing
COPY io_bench io_bench
COPY service service
COPY service_client service_client

FROM base AS agent
RUN pip install --no-cache-dir --constraint constraints.txt ".[bench,s3]"
USER 10001
ENTRYPOINT ["ckpt-bench"]

FROM base AS service
RUN pip install --no-cache-dir --constraint constraints.txt ".[service]" \
    && mkdir /data && chown app /data
# What sets the type of PDF reports; Debian keeps one version of each.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends fonts-liberation libharfbuzz-subset0 libpango-1.0-0 libpangoft2-1.0-0 \
    && rm -rf /var/lib/apt/lists/*
USER 10001
VOLUME /data
ENV DATABASE_URL=sqlite:////data/checkpoint-sizing.sqlite3
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=2)"]
ENTRYPOINT ["ckpt-serve", "--host", "0.0.0.0"]
