#!/bin/bash
# Boots a systemd of its own, in namespaces of its own over a copy of this system that is forgotten, with the unit as it is installed.
# $1: a directory for all of it, $2: the directory of the binaries, $3: that of contrib. What came of it is in $1/out/told.
set -e
mount --make-rprivate /
root=$1/root
mkdir -p "$root" "$1/disk" "$1/out"
mount -t tmpfs tmpfs "$1/disk"
mkdir "$1/disk/upper" "$1/disk/work"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/disk/upper,workdir=$1/disk/work" "$root" || exit 77
cd "$root"
install -m 755 "$2/ratelimitd" usr/sbin/
install -m 755 "$2/rlctl" usr/bin/
mkdir -p usr/lib/sysusers.d usr/lib/tmpfiles.d etc/ratelimit/conf.d etc/systemd/system told
install -m 644 "$3/sysusers.conf" usr/lib/sysusers.d/ratelimit.conf
install -m 644 "$3/tmpfiles.conf" usr/lib/tmpfiles.d/ratelimit.conf
rm -rf etc/fstab etc/systemd/system/*.wants
install -m 644 "$3/ratelimitd.service" etc/systemd/system/
printf '[[interface]]\nname = "rl0"\n[policy.default]\nlimits = [{ packets = 5, per = "1h" }]\n' > etc/ratelimit/config.toml
cat > etc/systemd/system/test.service <<UNIT
[Service]
Type=oneshot
ExecStart=/test.sh
StandardOutput=file:/told/told
StandardError=inherit
UNIT
cat > etc/systemd/system/test.target <<UNIT
[Unit]
Requires=basic.target test.service
After=basic.target
UNIT
cat > test.sh <<'TEST'
#!/bin/bash
say() { "$@"; echo "$? $*"; }
say systemd-sysusers ratelimit.conf
ip link add rl0 type veth peer name rl1
ip link set rl0 up
say systemctl start ratelimitd
say rlctl ban 203.0.113.1
say systemctl reload ratelimitd
systemctl kill --signal KILL ratelimitd
until rlctl list bans > /dev/null 2>&1; do sleep 0.1; done
systemctl show ratelimitd --property NRestarts
say systemctl stop ratelimitd
ip -d link show rl0 | grep -q 'prog/xdp' && echo "the kernel goes on"
say systemctl start ratelimitd
say rlctl list bans
say rlctl status
systemd-analyze security --offline=true --threshold=20 ratelimitd.service > /dev/null
echo "$? systemd-analyze"
journalctl --unit ratelimitd --no-pager
echo "all of it"
systemctl poweroff --force --force
TEST
chmod 755 test.sh
mount --bind "$1/out" told
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t bpf bpf sys/fs/bpf
mount --rbind /dev dev
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
exec chroot "$root" /usr/bin/env -i container=other "PATH=$PATH" /lib/systemd/systemd --unit=test.target --show-status=no --log-target=null
