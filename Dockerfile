# The whole tool in one image:
#   docker build -t ghcr.io/plimsoll/plimsoll .
#   docker run --rm -v "$PWD:/work" ghcr.io/plimsoll/plimsoll explain oom.pickle
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o /out/plimsoll ./cmd/plimsoll

# A base with glibc: the driver's library, which watch and metrics read, needs it.
FROM debian:12-slim
COPY --from=build /out/plimsoll /usr/local/bin/plimsoll
WORKDIR /work
USER 65534
ENTRYPOINT ["/usr/local/bin/plimsoll"]
