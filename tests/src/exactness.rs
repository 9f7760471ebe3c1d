//! How exact the limiter is: each algorithm against its definition, at many loads, with several
//! kinds of arrivals.
//!
//! [`oracle`] has the definitions, written down as the documentation says them and never by calling
//! what is measured. [`virtual_time`] chooses the time of every packet; then the answers have to be
//! the same, one by one. [`real_time`] takes the kernel's clock, and knows of every packet between
//! which two times it was judged.

pub mod arrivals;
pub mod bracketed;
pub mod explanation;
pub mod increments;
pub mod matrix;
pub mod oracle;
pub mod page;
pub mod promise;
pub mod real_time;
pub mod sighting;
pub mod subject;
pub mod virtual_time;

pub use arrivals::{Arrivals, Load};
pub use matrix::{Cell, Clock, Row};
pub use subject::{SUBJECTS, Subject};
