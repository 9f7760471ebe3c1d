//! Checks whether the kernel has SYN cookies for the challenge, and which options its listeners
//! keep with them.

use std::{fs, str::FromStr};

use ratelimit_common::challenge::options::{ListenerOptions, SCALE_MAX};
use ratelimit_core::{api::Refused, challenge::Way, config::Config};
use tracing::warn;

/// Settings of the reader's network namespace.
const SETTINGS: &str = "/proc/sys/net";

/// The value of `tcp_timestamps` without random offsets. With 1, each connection adds a secret
/// number (`secure_tcp_ts_off` in `net/core/secure_seq.c`), so options cannot be encoded in a
/// timestamp from outside.
const AS_THEY_ARE: u8 = 2;

/// Buffer bits beyond this number become the window scale.
const WINDOW_BITS: u32 = 15;

/// Refuses a configuration that needs SYN cookies if the kernel has none.
pub fn require(config: &Config) -> Result<(), Refused> {
    if way(config) != Some(Way::Syncookie) {
        return Ok(());
    }
    let setting = fs::read_to_string(format!("{SETTINGS}/ipv4/tcp_syncookies")).ok();
    judge(setting.as_deref().map(str::trim))?;
    match listener_options(config) {
        None => warn!(
            "net.ipv4.tcp_timestamps is not 2, so connections opened by SYN cookie have no \
             timestamps, SACK or window scaling"
        ),
        Some(options) if scales(config) && options.window_scale.is_none() => warn!(
            "connections opened by SYN cookie have no window scaling: net.ipv4.tcp_window_scaling \
             is 0, or this network namespace has no net.core.rmem_max"
        ),
        Some(_) => {}
    }
    Ok(())
}

fn way(config: &Config) -> Option<Way> {
    config.challenge.as_ref().map(|challenge| challenge.way)
}

fn scales(config: &Config) -> bool {
    let mut challenge = config.challenge.iter();
    challenge.any(|challenge| challenge.window_scaling)
}

/// Returns the options that listeners of this host keep with a cookie. `None` if the program cannot
/// encode them or they are unknown.
pub fn listener_options(config: &Config) -> Option<ListenerOptions> {
    if way(config) != Some(Way::Syncookie) || last::<u8>("ipv4/tcp_timestamps")? != AS_THEY_ARE {
        return None;
    }
    let is_set = |name| last::<u8>(name).map(|value| value != 0);
    let scales = scales(config) && is_set("ipv4/tcp_window_scaling")?;
    Some(ListenerOptions {
        window_scale: if scales { window_scale() } else { None },
        sack: is_set("ipv4/tcp_sack")?,
    })
}

/// Returns the window scale that a listener with the default buffer announces
/// (`tcp_select_initial_window` in `net/ipv4/tcp_output.c`). `None` if it is unknown: older kernels
/// show `rmem_max` only in the first network namespace.
fn window_scale() -> Option<u8> {
    let buffer = last::<u32>("ipv4/tcp_rmem")?.max(last("core/rmem_max")?);
    let scale = buffer.checked_ilog2()?.saturating_sub(WINDOW_BITS);
    u8::try_from(scale.min(SCALE_MAX.into())).ok()
}

/// Returns the last number of a setting.
fn last<T: FromStr>(name: &str) -> Option<T> {
    let text = fs::read_to_string(format!("{SETTINGS}/{name}")).ok()?;
    text.split_whitespace().next_back()?.parse().ok()
}

fn judge(setting: Option<&str>) -> Result<(), Refused> {
    let refused =
        |why: &str| Refused::because(format!("[challenge.tcp] cannot answer by syncookie: {why}"));
    match setting {
        Some("2") => Ok(()),
        Some("0") => Err(refused("net.ipv4.tcp_syncookies is 0")
            .hint("set net.ipv4.tcp_syncookies = 2 in /etc/sysctl.d, or method = \"rst\"")),
        Some(_) => {
            warn!(
                "net.ipv4.tcp_syncookies is not 2, so listeners send cookies only while their \
                 queue is full; using rst until then"
            );
            Ok(())
        }
        None => Err(
            refused("this kernel has no SYN cookies (CONFIG_SYN_COOKIES)")
                .hint("set method = \"rst\""),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_cookies_is_refused_with_a_hint() {
        assert!(judge(Some("2")).is_ok() && judge(Some("1")).is_ok());
        let refused = judge(Some("0")).unwrap_err();
        assert!(
            refused.error.ends_with("net.ipv4.tcp_syncookies is 0"),
            "{refused:?}"
        );
        let hint = judge(None).unwrap_err().hint.unwrap();
        assert_eq!(hint, "set method = \"rst\"");
    }
}
