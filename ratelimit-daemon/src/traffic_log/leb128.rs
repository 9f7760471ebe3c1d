//! Numbers in as few bytes as they need, seven bits each.

/// Writes one.
pub fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push((number & 0x7f) as u8);
}

/// Reads a number and advances; `None` if there is none.
pub fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..u64::BITS).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(first & 0x7f);
        number |= part.checked_shl(shift).filter(|it| it >> shift == part)?;
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_are_read_as_they_were_written(numbers: Vec<u64>) {
            let mut bytes = Vec::new();
            for number in &numbers {
                put(&mut bytes, *number);
            }
            let mut rest = &bytes[..];
            for number in numbers {
                prop_assert_eq!(take(&mut rest), Some(number));
            }
            prop_assert_eq!(take(&mut rest), None);
        }

        #[test]
        fn any_bytes_are_read_to_their_end(bytes: Vec<u8>) {
            let mut rest = &bytes[..];
            while take(&mut rest).is_some() {}
            prop_assert!(rest.len() <= bytes.len());
        }
    }

    #[test]
    fn the_largest_number_takes_ten_bytes_and_a_larger_one_is_none() {
        let mut bytes = Vec::new();
        put(&mut bytes, u64::MAX);
        assert_eq!(bytes.len(), 10);
        bytes[9] = 2;
        assert_eq!(take(&mut &bytes[..]), None);
    }
}
