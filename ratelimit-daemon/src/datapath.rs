//! The datapath: the program and the maps in the kernel, seen from user space.

mod object;

pub use object::OBJECT;
