# The server in a container: `docker build -t turnabout .`, and docs/how-to/docker.md for the rest.
# The first stage installs into a folder, the second one takes that folder and nothing else.

FROM python:3.13-slim-bookworm AS build
WORKDIR /build
COPY requirements-dev.lock pyproject.toml LICENSE ./
COPY docs/package.md docs/
COPY tools/sbom.py tools/
COPY src src
# The versions that are tested; the hashes go, as pip wants all of them or none.
RUN sed -E '/^ +--hash=/d; s/ \\$//' requirements-dev.lock > constraints.txt
ENV PIP_CONSTRAINT=/build/constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/turnabout \
 && /opt/turnabout/bin/pip install --no-cache-dir '.[server,postgres,cron,otel]'

FROM python:3.13-slim-bookworm
LABEL org.opencontainers.image.title="Turnabout" \
      org.opencontainers.image.description="A fair, multi-tenant message queue over HTTP" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/turnabout /opt/turnabout
RUN useradd --system --uid 10001 --home-dir /data --create-home turnabout
ENV PATH=/opt/turnabout/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    TURNABOUT_URL=sqlite:////data/turnabout.db
USER 10001
WORKDIR /data
VOLUME /data
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
  CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8080/readyz', timeout=4)"]
# So `docker run turnabout token create …` is `turnabout token create …`.
ENTRYPOINT ["turnabout"]
CMD ["serve", "--host", "0.0.0.0", "--migrate", "--log-format", "json"]
