//! The name of a node.

use core::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The longest name, in bytes: that of a host in DNS.
pub const NAME_MAX: usize = 64;

/// A node's name: 1 to 64 letters, digits, `-`, `_` and `.`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(try_from = "Arc<str>")]
pub struct NodeName(Arc<str>);

impl NodeName {
    /// A name, or nothing where the text cannot be one.
    /// # Examples
    ///
    /// ```
    /// use ratelimit_cluster::NodeName;
    ///
    /// assert_eq!(NodeName::new("edge-1.example").unwrap().as_str(), "edge-1.example");
    /// assert!(NodeName::new("edge 1").is_none());
    /// ```
    pub fn new(text: &str) -> Option<Self> {
        let fits = (1..=NAME_MAX).contains(&text.len());
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        (fits && text.bytes().all(is_plain)).then(|| Self(text.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<Arc<str>> for NodeName {
    type Error = &'static str;

    fn try_from(text: Arc<str>) -> Result<Self, Self::Error> {
        Self::new(&text).ok_or("not a valid node name")
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}
