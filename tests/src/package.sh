#!/bin/bash
# Boots systemd in new namespaces, over a disposable overlay of this system, and installs the
# package there. $1: a working directory, $2: the directory with two versions of the package. The
# output is in $1/out/told.
set -e
mount --make-rprivate /
root=$1/root
mkdir -p "$root" "$1/disk" "$1/out"
mount -t tmpfs tmpfs "$1/disk"
mkdir "$1/disk/upper" "$1/disk/work"
mount -t overlay overlay \
    -o "lowerdir=/,upperdir=$1/disk/upper,workdir=$1/disk/work" "$root" || exit 77
cd "$root"
mkdir -p etc/systemd/system told
mkdir packages
cp "$2"/*.deb packages
rm -rf etc/fstab etc/ratelimit etc/systemd/system/*.wants
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
cd /packages
say() { "$@"; echo "$? $*"; }
is_on() { ip -d link show rl0 | grep -q prog/xdp; }
say apt install --yes ./ratelimit_1_amd64.deb
systemctl is-active ratelimitd
# A client at the other end of a veth pair, in its own namespace.
ip netns add client
ip link add rl0 type veth peer name rl1 netns client
ip address add 203.0.113.2/24 dev rl0
ip link set rl0 up
ip -n client address add 203.0.113.1/24 dev rl1
ip -n client link set rl1 up
answers() {
    ip netns exec client ping -c 1 -W "$1" -q 203.0.113.2 | grep --only-matching '. received'
}
dropped() { rlctl stats | grep banned; }
say rlctl protect rl0 --observe
say rlctl protect rl0
say systemctl is-enabled ratelimitd
say rlctl status
say answers 5
say rlctl ban 203.0.113.1
say answers 1
say dropped
say systemctl reload ratelimitd
printf '#!/bin/sh\ncat >> $STATE_DIRECTORY/heard\n' > /etc/ratelimit/notify
chmod 755 /etc/ratelimit/notify
say systemctl start ratelimit-notify@bans
state=/var/lib/ratelimit-notify/bans
for _ in {1..300}; do [ -s $state/cursor ] && break; sleep 0.1; done
rlctl ban 203.0.113.99
systemctl restart ratelimit-notify@bans
rlctl unban 203.0.113.99
for _ in {1..300}; do grep -qs removed $state/heard && break; sleep 0.1; done
echo "a program heard of $(wc -l < $state/heard) events"
systemctl stop ratelimit-notify@bans
systemctl kill --signal KILL ratelimitd
# The daemon that was killed may still answer.
for _ in {1..300}; do
    [ "$(systemctl show ratelimitd --property NRestarts --value)" != 0 ] &&
        rlctl list bans > /dev/null 2>&1 && break
    sleep 0.1
done
systemctl show ratelimitd --property NRestarts
say systemctl stop ratelimitd
is_on && echo "the kernel goes on"
say systemctl start ratelimitd
say apt install --yes ./ratelimit_2_amd64.deb
say rlctl list bans
systemd-analyze security --offline=true --threshold=20 ratelimitd.service > /dev/null
echo "$? systemd-analyze"
journalctl --unit ratelimitd --no-pager
say dpkg --purge ratelimit
is_on || echo "nothing is attached"
say ls /etc/ratelimit /var/lib/ratelimit /var/lib/private/ratelimit-notify /sys/fs/bpf/ratelimit
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
exec chroot "$root" /usr/bin/env -i container=other "PATH=$PATH" \
    /lib/systemd/systemd --unit=test.target --show-status=no --log-target=null
