//! Which slot of the counters an interface has.

use anyhow::bail;
use ratelimit_common::layout::INTERFACES_MAX;

use crate::config::Interface;

/// The interfaces with their slots: that of their pinned link, else the lowest that no link has.
///
/// # Errors
///
/// When there are too many.
pub fn assign(
    interfaces: &[Interface],
    links: &[(String, u32)],
) -> anyhow::Result<Vec<(Interface, u32)>> {
    let mut taken: Vec<u32> = links.iter().map(|(_, slot)| *slot).collect();
    let mut assigned = Vec::new();
    for interface in interfaces {
        let kept = links
            .iter()
            .find(|(name, _)| *name == interface.name)
            .map(|(_, slot)| *slot);
        let Some(slot) = kept.or_else(|| (0..INTERFACES_MAX).find(|slot| !taken.contains(slot)))
        else {
            bail!(
                "{} is one interface too many: at most {INTERFACES_MAX} can be counted",
                interface.name
            );
        };
        taken.push(slot);
        assigned.push((interface.clone(), slot));
    }
    Ok(assigned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Mode;

    #[test]
    fn an_interface_keeps_the_slot_of_its_pinned_link_and_others_get_the_lowest_that_is_free() {
        let pins = [pin(0, "gone"), pin(2, "eth1")];
        assert_eq!(assigned(&["eth0", "eth1", "eth2"], &pins), [1, 2, 3]);
    }

    #[test]
    fn one_interface_too_many_is_named() {
        let names: Vec<String> = (0..=INTERFACES_MAX)
            .map(|number| format!("eth{number}"))
            .collect();
        let interfaces: Vec<Interface> = names.iter().map(|name| interface(name)).collect();
        let error = assign(&interfaces, &[]).unwrap_err().to_string();
        assert!(
            error.starts_with("eth32 is one interface too many"),
            "{error}"
        );
    }

    fn assigned(names: &[&str], pins: &[(String, u32)]) -> Vec<u32> {
        let interfaces: Vec<Interface> = names.iter().map(|name| interface(name)).collect();
        let slots = assign(&interfaces, pins).unwrap();
        slots.into_iter().map(|(_, slot)| slot).collect()
    }

    fn interface(name: &str) -> Interface {
        Interface {
            name: name.to_owned(),
            mode: Mode::Auto,
            jumbo: false,
        }
    }

    fn pin(slot: u32, interface: &str) -> (String, u32) {
        (interface.to_owned(), slot)
    }
}
