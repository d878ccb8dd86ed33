# Three images of this repository, by `docker build --target`:
#
#   mirror     mirrormaker, zkconsumer, zkproducer; no Java
#   full       the same, a JRE and Spark for sparkpipeline; what is built without --target
#   cluster    ZooKeeper and real brokers in one container, to try things on: python -m localkafka
#
# docs/docker.md says how to run them.

# The Python that the tests run on, and the Debian that still has Java 17: the newest that runs the brokers of 0.8, and one
# that Spark 4 takes.  For builds that are the same in a year, give a digest:
# --build-arg BASE=python:3.11-slim-bookworm@sha256:... (docs/docker.md).
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS base
# Whatever is installed has to have a hash of the files in requirements/; the wheel of this project is built here.
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
COPY conf/docker/health.py /usr/local/share/kafka-legacy-mirror/
COPY conf/docker/requirements /usr/local/share/kafka-legacy-mirror/requirements
RUN groupadd --gid 10001 mirror \
 && useradd --uid 10001 --gid 10001 --no-log-init --create-home --home-dir /var/lib/mirrormaker mirror \
 && install -d -o mirror -g mirror /warehouse
USER 10001:10001
WORKDIR /var/lib/mirrormaker
# What systemd would set: the state folder, and where the mirror reports that it is alive, for the health check.
ENV STATE_DIRECTORY=/var/lib/mirrormaker NOTIFY_SOCKET=/tmp/mirrormaker-notify WATCHDOG_USEC=15000000
# By what the mirror reports to systemd's socket, which needs no option: http.listen is off unless a file sets it.
HEALTHCHECK --interval=30s --timeout=20s --start-period=90s --retries=3 \
    CMD ["python", "/usr/local/share/kafka-legacy-mirror/health.py"]
CMD ["mirrormaker", "run", "/etc/mirrormaker/mirror.yaml"]

FROM base AS wheel
USER root
COPY . /src
RUN pip install --quiet --require-hashes -r /usr/local/share/kafka-legacy-mirror/requirements/build.txt \
 && SOURCE_DATE_EPOCH=0 pip wheel --quiet --no-deps --no-build-isolation --no-index --wheel-dir /wheels /src

FROM base AS java
USER root
# The package links its man pages in a folder that slim images lack.
RUN mkdir -p /usr/share/man/man1 && apt-get update -q \
 && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends openjdk-17-jre-headless \
 && rm -rf /var/lib/apt/lists/* /var/log/*.log /var/log/apt
USER 10001:10001

FROM java AS jars
USER root
RUN apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends maven
COPY --from=wheel /wheels /wheels
RUN pip install --quiet --require-hashes -r /usr/local/share/kafka-legacy-mirror/requirements/base.txt \
 && pip install --quiet --no-deps --no-index /wheels/*.whl
# The releases whose brokers the image cluster can start, such as "0.8.2.2 2.8.2"; 0.8.2.2 brings ZooKeeper for all.
ARG KAFKA_VERSIONS=0.8.2.2
ENV LOCALKAFKA_CACHE=/opt/localkafka
RUN python -m localkafka.prefetch ${KAFKA_VERSIONS} \
 && rm -rf /opt/localkafka/m2 && chmod -R a+rX /opt/localkafka

FROM java AS cluster
USER root
COPY --from=wheel /wheels /wheels
RUN pip install --quiet --require-hashes -r /usr/local/share/kafka-legacy-mirror/requirements/base.txt \
 && pip install --quiet --no-deps --no-index /wheels/*.whl
COPY --from=jars /opt/localkafka /opt/localkafka
ENV LOCALKAFKA_CACHE=/opt/localkafka
# Read by localkafka with LOCALKAFKA_BACKEND=docker.
ARG KAFKA_VERSIONS=0.8.2.2
LABEL localkafka.versions="${KAFKA_VERSIONS}"
USER 10001:10001
# Ends with 1 until the broker has registered.
HEALTHCHECK --interval=10s --timeout=10s --start-period=60s --retries=3 \
    CMD ["zkconsumer", "brokers", "--zookeeper", "127.0.0.1:2181/kafka"]
CMD ["python", "-m", "localkafka", "--port", "9092", "--zookeeper-port", "2181"]

FROM base AS mirror
# metrics: prometheus-client.  Add fast for the compiled kernels (150 MB): --build-arg EXTRAS=metrics,fast
ARG EXTRAS=metrics
USER root
COPY --from=wheel /wheels /wheels
RUN cd /usr/local/share/kafka-legacy-mirror/requirements \
 && pip install --quiet --require-hashes -r base.txt $(echo "${EXTRAS}" | tr , '\n' | sed 's/.\+/-r &.txt/') \
 && pip install --quiet --no-deps --no-index /wheels/*.whl
USER 10001:10001

FROM java AS full
USER root
COPY --from=wheel /wheels /wheels
# pyspark is published as source: what builds it is installed first.
RUN cd /usr/local/share/kafka-legacy-mirror/requirements \
 && pip install --quiet --require-hashes -r build.txt \
 && pip install --quiet --require-hashes --no-build-isolation -r base.txt -r metrics.txt -r spark.txt \
 && pip install --quiet --no-deps --no-index /wheels/*.whl
USER 10001:10001
