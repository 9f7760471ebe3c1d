//! What `CrowdSec` and fail2ban write.

use super::*;

#[test]
fn decisions_of_crowdsec_end_as_go_says() {
    check(
        "[{\"id\":91,\"decisions\":[{\"duration\":\"512.3µs\",\"type\":\"ban\",\"scope\":\"Ip\",\
         \"value\":\"198.51.100.10\"},{\"duration\":\"-3h4m\",\"type\":\"ban\",\"scope\":\"Ip\",\
         \"value\":\"198.51.100.9\"},{\"duration\":\"1.5h\",\"type\":\"ban\",\"scope\":\"Range\",\
         \"value\":\"192.0.2.77/25\"}]}, \
         {\"decisions\":null}]",
        Format::CrowdSecJson,
        "198.51.100.10 +0s\n192.0.2.0/25 +5400s",
        &[("ended already", 1)],
    );
    check(
        "{\n \
         \"capacity\": 0,\n \
         \"decisions\": \
         [{\"duration\": \"3h59m\", \"scope\": \"Ip\", \"type\": \"ban\", \
         \"value\": \"192.0.2.1\", \
         \"scenario\": \"manual\"}],\n \
         \"id\": 90\n\
         }",
        Format::CrowdSecJson,
        "192.0.2.1 +14340s manual",
        &[],
    );
    check(
        "{\"new\":[{\"duration\":\"4h\",\"scope\":\"Ip\",\"type\":\"ban\",\
         \"value\":\"192.0.2.1\"}],\"deleted\":[{\"value\":\"192.0.2.2\"}]}",
        Format::CrowdSecJson,
        "192.0.2.1 +14400s",
        &[],
    );
}

#[test]
fn what_fail2ban_shows_is_read_with_ends() {
    check(
        "[{'sshd': ['192.0.2.5', '2001:db8::5']}, {'recidive': []}, {'nginx': ['198.51.100.6']}]\n",
        Format::Fail2ban,
        "192.0.2.5 fail2ban sshd\n2001:db8::5 fail2ban sshd\n198.51.100.6 fail2ban nginx",
        &[],
    );
    check(
        "Status for the jail: sshd\n\
         |- Filter\n\
         |  |- Currently failed: 2\n\
         |  `- File list:        /var/log/auth.log\n\
         `- Actions\n   \
         |- Total banned:     40\n   \
         `- Banned IP list:   192.0.2.5 198.51.100.6\n",
        Format::Fail2ban,
        "192.0.2.5 fail2ban sshd\n198.51.100.6 fail2ban sshd",
        &[],
    );
    let zone = jiff::tz::TimeZone::system();
    let at = |seconds| {
        let end = now() + jiff::SignedDuration::from_secs(seconds);
        end.to_zoned(zone.clone())
            .strftime("%Y-%m-%d %H:%M:%S")
            .to_string()
    };
    check(
        &format!(
            "192.0.2.5 \t{} + 600 = {}\n\
             198.51.100.6 \t{} + -1 = 9999-12-31 23:59:59\n\
             192.0.2.7 \t{} + 60 = {}\n",
            at(0),
            at(600),
            at(0),
            at(-120),
            at(-60)
        ),
        Format::Fail2ban,
        "192.0.2.5 +600s\n198.51.100.6",
        &[("ended already", 1)],
    );
}
