# Warpline as an image: `docker build --tag warpline .`, then
#
#   docker run --rm --volume "$PWD:/work" warpline run scenarios/dumbbell.toml
#
# Live runs and shells need more: --cap-add=NET_ADMIN --cap-add=SYS_ADMIN --device=/dev/net/tun --security-opt seccomp=unconfined; guests need
# --shm-size=2g --security-opt seccomp=unconfined.

FROM rust:1-trixie AS development
RUN apt-get update \
    && apt-get install --yes --no-install-recommends clang libelf-dev make pkg-config python3 python3-venv zlib1g-dev \
    && rm -rf /var/lib/apt/lists/* \
    && rustup component add clippy rustfmt

FROM development AS build
WORKDIR /source
COPY . .
RUN cargo build --release --locked --package warpline-cli \
    && strip target/release/warpline

FROM debian:trixie-slim
# Guests (x86-64 only), network address translation of shells, and what live runs measure with.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates iproute2 iputils-ping libelf1t64 nftables zlib1g \
        $([ "$(dpkg --print-architecture)" = amd64 ] && echo user-mode-linux) \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /source/target/release/warpline /usr/local/bin/warpline
COPY scenarios /usr/share/warpline/scenarios
WORKDIR /work
ENTRYPOINT ["warpline"]
CMD ["--help"]
