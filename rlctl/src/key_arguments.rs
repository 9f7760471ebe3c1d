//! The arguments of `rlctl keys`.

use clap::Args;

/// `keys SPACE [--rows N]`, `keys SPACE KEY [--reset]`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  rlctl keys users
  rlctl keys users --rows 100 --json
  rlctl keys users alice
  rlctl keys users alice --reset

Without a key it shows the keys that are closest to a limit. Looking at a key charges nothing.")]
pub struct KeysArguments {
    /// Name of the key space: that of `[keys.NAME]`
    pub space: String,
    /// The key, as the application or proxy names it
    pub key: Option<String>,
    /// Number of keys
    #[arg(
        long,
        value_name = "N",
        default_value_t = 20,
        value_parser = clap::value_parser!(u32).range(1..=10_000),
    )]
    pub rows: u32,
    /// Reset the usage of the key
    #[arg(long, requires = "key")]
    pub reset: bool,
    /// The key after `top`, `check` or `reset`, which were verbs.
    #[arg(hide = true)]
    pub old_key: Option<String>,
}
