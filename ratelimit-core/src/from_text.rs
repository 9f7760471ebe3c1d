//! Types that serde reads from their text and writes as it.

/// Implements the conversions of `#[serde(try_from = "String", into = "String")]` by `FromStr` and
/// `Display`.
macro_rules! from_text {
    ($name:ty) => {
        impl TryFrom<String> for $name {
            type Error = <Self as std::str::FromStr>::Err;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.to_string()
            }
        }
    };
}
