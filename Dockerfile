# syntax=docker/dockerfile:1
# A service that translates: docker run -p 8000:8000 -v ./runs:/runs transduce serve /runs/en-de …
# docs/install.md says how to build it, for a GPU too.

FROM python:3.11-slim-bookworm AS build
# Where torch comes from: by default the usual index, whose build is for GPUs and processors; name
# torch's own index of builds for processors to have an image of a fraction of the size.
ARG TORCH_INDEX=
ARG EXTRAS=web,fast,zst
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
RUN python -m venv /opt/transduce
ENV PATH=/opt/transduce/bin:$PATH
WORKDIR /build
# What seldom changes first, so that a change of ours installs torch no second time.
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
# Of a service; what trains or translates files has none, and is started with --no-healthcheck.
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["transduce"]
CMD ["--help"]
