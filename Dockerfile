# CPU image: everything `make demo` and the evaluator service need.
#   docker build -t cobalt .
#   docker run --rm -it --shm-size=1g -v "$PWD/outputs:/cobalt/outputs" cobalt make demo
# Docker's default profile forbids user namespaces, so programs run at the isolation level `landlock`;
# docs/execution.md says how to allow `namespaces`.
FROM python:3.11-slim-bookworm

# Versions of a Debian release leave its index when they are replaced, so none is named.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends make git \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 1000 --create-home cobalt \
    && mkdir /cobalt \
    && chown cobalt /cobalt

USER 1000
WORKDIR /cobalt
COPY --chown=cobalt . .
# On x86 pass the index of the CPU builds of torch, or CUDA comes along: --build-arg TORCH_INDEX=...
ARG TORCH_INDEX=""
RUN make setup TORCH_INDEX="$TORCH_INDEX"
ENV PATH="/cobalt/.venv/bin:$PATH"
CMD ["make", "help"]
