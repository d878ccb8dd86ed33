# Three images of this repository, by `docker build --target`:
#
#   mirror     mirrormaker, zkconsumer, zkproducer; no Java
#   full       the same, a JRE and Spark for sparkpipeline; what is built without --target
#   cluster    ZooKeeper and real brokers in one container, to try things on: python -m localkafka
#
# docs/docker.md says how to run them.

# The Python that the tests run on, and the Debian that still has Java 17: the newest that runs the brokers of 0.8, and one
# that Spark 4 takes.  For builds that are the same in a year, give a digest: --build-arg BASE=python@sha256:...
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS base
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore \
    PIP_CONSTRAINT=/usr/local/share/kafka-legacy-mirror/constraints.txt \
    PIP_BUILD_CONSTRAINT=/usr/local/share/kafka-legacy-mirror/constraints.txt
COPY conf/docker/constraints.txt /usr/local/share/kafka-legacy-mirror/constraints.txt

FROM base AS wheel
COPY . /src
RUN SOURCE_DATE_EPOCH=0 pip wheel --quiet --no-deps --wheel-dir /wheels /src

FROM base AS mirror
# metrics for prometheus-client; add fast for the compiled kernels (150 MB): --build-arg EXTRAS=metrics,fast
ARG EXTRAS=metrics
COPY --from=wheel /wheels /wheels
RUN pip install --quiet "kafka-legacy-mirror[${EXTRAS}] @ file://$(echo /wheels/*.whl)" \
 && groupadd --gid 10001 mirror \
 && useradd --uid 10001 --gid 10001 --no-log-init --create-home --home-dir /var/lib/mirrormaker mirror \
 && install -d -o mirror -g mirror /warehouse
COPY conf/docker/health.py /usr/local/share/kafka-legacy-mirror/health.py
USER 10001:10001
WORKDIR /var/lib/mirrormaker
# What systemd would set: the state folder, and where the mirror reports that it is alive, for the health check.
ENV STATE_DIRECTORY=/var/lib/mirrormaker NOTIFY_SOCKET=/tmp/mirrormaker-notify WATCHDOG_USEC=15000000
# The status page of the mirror will be asked here, once there is one.
HEALTHCHECK --interval=30s --timeout=20s --start-period=90s --retries=3 \
    CMD ["python", "/usr/local/share/kafka-legacy-mirror/health.py"]
CMD ["mirrormaker", "run", "/etc/mirrormaker/mirror.yaml"]

FROM mirror AS java
USER root
# Its man pages are links that the package makes in a folder which slim images lack.
RUN mkdir -p /usr/share/man/man1 && apt-get update -q \
 && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends openjdk-17-jre-headless \
 && rm -rf /var/lib/apt/lists/* /var/log/*.log /var/log/apt
USER 10001:10001

FROM java AS jars
USER root
RUN apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends maven
# The releases whose brokers the image cluster can start; 0.8.2.2 brings ZooKeeper for all of them.
ARG KAFKA_VERSIONS=0.8.2.2
ENV LOCALKAFKA_CACHE=/opt/localkafka
RUN python -m localkafka.prefetch ${KAFKA_VERSIONS} && rm -rf /opt/localkafka/m2

FROM java AS cluster
COPY --from=jars /opt/localkafka /opt/localkafka
ENV LOCALKAFKA_CACHE=/opt/localkafka
# A broker registers in ZooKeeper after everything else.
HEALTHCHECK --interval=10s --timeout=10s --start-period=60s --retries=3 \
    CMD ["zkconsumer", "brokers", "--zookeeper", "127.0.0.1:2181/kafka"]
CMD ["python", "-m", "localkafka", "--port", "9092", "--zookeeper-port", "2181"]

FROM java AS full
ARG EXTRAS=metrics
USER root
RUN pip install --quiet "kafka-legacy-mirror[${EXTRAS},spark] @ file://$(echo /wheels/*.whl)"
USER 10001:10001
