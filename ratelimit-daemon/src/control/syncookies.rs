//! Whether the kernel has SYN cookies for a challenge that answers with them.

use std::fs;

use ratelimit_core::{api::Refused, challenge::Way, config::Config};
use tracing::warn;

/// The setting of the network namespace that reads it.
const SETTING: &str = "/proc/sys/net/ipv4/tcp_syncookies";

/// Refuses a configuration that needs SYN cookies where there are none.
///
/// # Errors
///
/// Why there are none, with what to write.
pub fn require(config: &Config) -> Result<(), Refused> {
    let way = config.challenge.as_ref().map(|challenge| challenge.way);
    if way != Some(Way::Syncookie) {
        return Ok(());
    }
    let setting = fs::read_to_string(SETTING).ok();
    judge(setting.as_deref().map(str::trim))
}

fn judge(setting: Option<&str>) -> Result<(), Refused> {
    let refused =
        |why: &str| Refused::because(format!("[challenge.tcp] cannot answer by syncookie: {why}"));
    match setting {
        Some("2") => Ok(()),
        Some("0") => Err(refused("net.ipv4.tcp_syncookies is 0")
            .hint("write net.ipv4.tcp_syncookies = 2 into /etc/sysctl.d, or way = \"rst\"")),
        Some(_) => {
            warn!(
                "net.ipv4.tcp_syncookies is not 2, so a listener gives cookies only while its queue is full: by rst until then"
            );
            Ok(())
        }
        None => Err(
            refused("this kernel has no SYN cookies (CONFIG_SYN_COOKIES)")
                .hint("write way = \"rst\", which needs none"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_cookies_is_refused_with_what_to_write() {
        assert!(judge(Some("2")).is_ok() && judge(Some("1")).is_ok());
        let refused = judge(Some("0")).unwrap_err();
        assert!(
            refused.error.ends_with("net.ipv4.tcp_syncookies is 0"),
            "{refused:?}"
        );
        let hint = judge(None).unwrap_err().hint.unwrap();
        assert_eq!(hint, "write way = \"rst\", which needs none");
    }
}
