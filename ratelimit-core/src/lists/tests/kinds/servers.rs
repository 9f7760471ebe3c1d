//! Rules of servers.

use super::*;

#[test]
fn sources_that_servers_deny_are_read() {
    check(
        "# /etc/hosts.deny\n\
         ALL: 192.0.2.5\n\
         sshd: 198.51.100.0/255.255.255.0\n\
         ALL: 10.0.0. [2001:db8::]/32 .example.net\n\
         ALL: ALL\n\
         sshd: 192.0.2.6 : ALLOW\n",
        Format::HostsDeny,
        "192.0.2.5\n198.51.100.0/24 hosts.deny sshd\n10.0.0.0/24\n2001:db8::/32",
        &[(NO_DROP, 1), ("of a rule with a name", 1), (NO_SOURCE, 1)],
    );
    check(
        "server {\n  \
         location / {\n    \
         allow 10.0.0.1;\n    \
         deny 192.0.2.5;\n    \
         deny 2001:db8::/32; # why\n    \
         deny all;\n  \
         }\n\
         }\n",
        Format::WebServer,
        "192.0.2.5\n2001:db8::/32",
        &[(NO_DROP, 1), (NO_SOURCE, 1)],
    );
    check(
        "geo $bad {\n  default 0;\n  192.0.2.0/24 1;\n  198.51.100.7 0;\n}\n",
        Format::WebServer,
        "192.0.2.0/24",
        &[(NO_DROP, 1)],
    );
    check(
        "Order Allow,Deny\n\
         Allow from all\n\
         Deny from 192.0.2.5 198.51.100\n\
         Deny from env=bad\n\
         <RequireAll>\n\
         Require all granted\n\
         Require not ip 203.0.113.0/24\n\
         </RequireAll>\n",
        Format::WebServer,
        "192.0.2.5\n198.51.100.0/24\n203.0.113.0/24",
        &[(NO_DROP, 1), (CONDITIONS, 1)],
    );
    check(
        "192.0.2.5 # lfd: (sshd) failed\n\
         tcp|in|d=22|s=192.0.2.6 # port\n\
         udp|out|d=53|d=192.0.2.7\n\
         Include /etc/csf/more.deny\n\
         192.0.2.8\n",
        Format::Plain,
        "192.0.2.5 lfd: (sshd) failed\n192.0.2.8",
        &[(CONDITIONS, 2), ("of another file", 1)],
    );
}

#[test]
fn tables_of_postfix_and_values_of_maps_are_read() {
    check(
        "192.0.2.1 REJECT why not\n198.51.100.0/24\tREJECT\n203.0.113.0/24 OK\n\
         203.0.113.1\tpermit_mynetworks\n192.0.2.2\tDUNNO\n",
        Format::Plain,
        "192.0.2.1 why not\n198.51.100.0/24",
        &[(NO_DROP, 3)],
    );
    check(
        "192.0.2.0/24 1;\n198.51.100.7 0;\n",
        Format::Plain,
        "192.0.2.0/24",
        &[("with the number 0 behind them", 1)],
    );
    refuse(
        "192.0.2.1 REJECT\n!10.0.0.0/8 REJECT\n",
        "list:2:1: `!10.0.0.0/8` is an exception",
    );
}
