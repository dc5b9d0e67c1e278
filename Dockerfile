# syntax=docker/dockerfile:1
# Translation service: docker run -p 8000:8000 -v ./runs:/runs transduce serve /runs/en-de …
# docs/install.md explains how to build it, also for GPUs.

FROM python:3.11-slim-bookworm AS build
# The package index for torch. The default build supports GPUs; PyTorch's index of CPU builds gives
# a much smaller image.
ARG TORCH_INDEX=
ARG EXTRAS=web,fast,zst,language
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
RUN python -m venv /opt/transduce
ENV PATH=/opt/transduce/bin:$PATH
WORKDIR /build
# Dependencies first, so that a change of our code does not install torch again.
COPY constraints.txt requirements.lock ./
RUN pip install --constraint constraints.txt ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} torch \
    && sed -n 's/^\([A-Za-z0-9._-]*==[^ ]*\).*/\1/p' requirements.lock > locked.txt
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip install --constraint constraints.txt --constraint locked.txt ".[$EXTRAS]" && pip check

FROM python:3.11-slim-bookworm
LABEL org.opencontainers.image.title="transduce" \
      org.opencontainers.image.description="The Transformer of \"Attention Is All You Need\": two text files in, a translator out" \
      org.opencontainers.image.licenses="MIT"
RUN groupadd --system --gid 10001 transduce \
    && useradd --system --uid 10001 --gid transduce --home-dir /home/transduce --create-home transduce \
    && install --directory --owner transduce --group transduce /runs
COPY --from=build /opt/transduce /opt/transduce
ENV PATH=/opt/transduce/bin:$PATH PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /runs
VOLUME /runs
EXPOSE 8000
# For the service; run other commands with --no-healthcheck.
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["transduce"]
CMD ["--help"]
