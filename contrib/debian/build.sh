#!/bin/sh
# Packs prebuilt binaries as a Debian package, and prints its path. Needs debhelper and dpkg-dev,
# but not root. $1: the directory of ratelimitd and rlctl, $2: the output directory, $3: the
# version.
set -eu
binaries=$(cd "$1" && pwd)
sources=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
tree=$stage/ratelimit
mkdir "$tree"
cd "$sources"
cp -a contrib docs README.md "$tree"
cp "$binaries/ratelimitd" "$binaries/rlctl" "$tree"
cp -a contrib/debian "$tree"
cd "$tree/debian"
cp "$sources/contrib/ratelimitd.service" ratelimit.ratelimitd.service
cp "$sources/contrib/ratelimit-lists.service" ratelimit.ratelimit-lists.service
cp "$sources/contrib/ratelimit-lists.timer" ratelimit.ratelimit-lists.timer
cp "$sources/contrib/ratelimit-notify@.service" ratelimit.ratelimit-notify@.service
cp "$sources/contrib/sysusers.conf" ratelimit.sysusers
cp "$sources/contrib/tmpfiles.conf" ratelimit.tmpfiles
cat > changelog <<CHANGELOG
ratelimit ($3) unstable; urgency=medium

  * See CHANGELOG.md.

 -- The ratelimit maintainers <ratelimit@packages.debian.org>  $(date -R)
CHANGELOG
cd "$tree"
dpkg-buildpackage --build=binary --no-check-builddeps --no-sign > "$stage/log" 2>&1 || {
    cat "$stage/log" >&2
    exit 1
}
package=$(basename "$stage"/ratelimit_*.deb)
mv "$stage/$package" "$out"
echo "$out/$package"
