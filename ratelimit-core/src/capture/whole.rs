//! A reader that fills what it is given: a pipe answers with less, and the parser takes nothing at
//! all for the end.

use std::{
    cell::RefCell,
    io::{ErrorKind, Read, Result},
    rc::Rc,
};

/// The error of a reader, which the parser does not hand on.
pub type Failed = Rc<RefCell<Option<std::io::Error>>>;

/// Reads until the buffer is full or the file ends.
pub struct Whole<R> {
    reader: R,
    failed: Failed,
}

impl<R> Whole<R> {
    pub fn new(reader: R) -> Self {
        Self {
            reader,
            failed: Failed::default(),
        }
    }

    /// Returns the cell that will hold an error.
    pub fn failed(&self) -> Failed {
        Rc::clone(&self.failed)
    }
}

impl<R: Read> Read for Whole<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.reader.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    let kind = error.kind();
                    self.failed.replace(Some(error));
                    return Err(kind.into());
                }
            }
        }
        Ok(filled)
    }
}
