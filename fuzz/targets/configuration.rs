//! Any text is a configuration, or is refused with an error for each problem that says where it is.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ratelimit_core::config::{self, File};

fuzz_target!(|text: &str| {
    let file = File {
        path: "config.toml".into(),
        text: text.to_owned(),
    };
    match config::parse(&[file]) {
        Ok((_, warnings)) => warnings
            .iter()
            .for_each(|it| assert!(!it.to_string().is_empty())),
        Err(error) => assert!(error.to_string().contains("config.toml")),
    }
});
