//! Messages with descriptors over a pair of `SOCK_SEQPACKET` sockets: each is whole, and none is longer than [`LENGTH_MAX`].

use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    time::Duration,
};

/// Bytes of the longest message.
pub const LENGTH_MAX: usize = 64 << 10;
/// Descriptors of a message: as many as the kernel takes (`SCM_MAX_FD`).
const DESCRIPTORS_MAX: usize = 253;
/// Words of the control data of a message with that many.
const CONTROL_WORDS: usize = 160;

/// One end of the pair.
#[derive(Debug)]
pub struct Socket(OwnedFd);

/// A message: its bytes, and the descriptors that came with them.
pub type Message = (Vec<u8>, Vec<OwnedFd>);

impl Socket {
    /// Both ends.
    ///
    /// # Errors
    ///
    /// When the kernel has none.
    pub fn pair() -> io::Result<(Self, Self)> {
        let mut ends = [0; 2];
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        // SAFETY: there is room for two.
        let answer = unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) };
        if answer != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel gave them to this process just now, and nobody else has them.
        let [one, other] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
        Ok((Self(one), Self(other)))
    }

    /// How long [`receive`](Self::receive) waits at most.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn set_patience(&self, patience: Duration) -> io::Result<()> {
        let time = libc::timeval {
            tv_sec: patience.as_secs().cast_signed(),
            tv_usec: 0,
        };
        let length = u32::try_from(size_of_val(&time)).map_err(io::Error::other)?;
        // SAFETY: the kernel reads as many bytes as the structure has.
        let answer = unsafe {
            libc::setsockopt(
                self.0.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_RCVTIMEO,
                (&raw const time).cast(),
                length,
            )
        };
        if answer == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Sends a message.
    ///
    /// # Errors
    ///
    /// When it is too long, has too many descriptors, or the other end is closed.
    pub fn send(&self, bytes: &[u8], descriptors: &[OwnedFd]) -> io::Result<()> {
        if bytes.len() > LENGTH_MAX || descriptors.len() > DESCRIPTORS_MAX {
            return Err(io::Error::other("the message is too long"));
        }
        let numbers: Vec<libc::c_int> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
        let mut part = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        let mut control = [0u64; CONTROL_WORDS];
        let mut header = empty_header();
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        if !numbers.is_empty() {
            let length = u32::try_from(size_of_val(&numbers[..])).map_err(io::Error::other)?;
            header.msg_control = control.as_mut_ptr().cast();
            // SAFETY: it only adds up lengths.
            header.msg_controllen = unsafe { libc::CMSG_SPACE(length) } as usize;
            // SAFETY: the control data has room for the largest number of descriptors, and is aligned as its header.
            unsafe {
                let first = libc::CMSG_FIRSTHDR(&raw const header);
                (*first).cmsg_level = libc::SOL_SOCKET;
                (*first).cmsg_type = libc::SCM_RIGHTS;
                (*first).cmsg_len = libc::CMSG_LEN(length) as usize;
                let (from, bytes) = (numbers.as_ptr().cast::<u8>(), size_of_val(&numbers[..]));
                std::ptr::copy_nonoverlapping(from, libc::CMSG_DATA(first), bytes);
            }
        }
        // SAFETY: all that the header points to outlives the call.
        let sent = again(|| unsafe {
            libc::sendmsg(self.0.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL)
        })?;
        if sent == bytes.len() {
            Ok(())
        } else {
            Err(io::Error::other("the message was cut"))
        }
    }

    /// The next message; `None` where the other end is closed.
    ///
    /// # Errors
    ///
    /// When it is too long, or the kernel refuses.
    pub fn receive(&self) -> io::Result<Option<Message>> {
        let mut bytes = vec![0u8; LENGTH_MAX];
        let mut control = [MaybeUninit::<u64>::zeroed(); CONTROL_WORDS];
        let mut part = libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        let mut header = empty_header();
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control);
        // SAFETY: all that the header points to outlives the call, and is as long as it says.
        let length = again(|| unsafe {
            libc::recvmsg(self.0.as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC)
        })?;
        let descriptors = descriptors_of(&header);
        if header.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the message is too long",
            ));
        }
        if length == 0 {
            return Ok(None);
        }
        bytes.truncate(length);
        Ok(Some((bytes, descriptors)))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

fn empty_header() -> libc::msghdr {
    // SAFETY: it is plain data, valid when all zero.
    unsafe { std::mem::zeroed() }
}

/// All descriptors that came with a message, each with an owner.
fn descriptors_of(header: &libc::msghdr) -> Vec<OwnedFd> {
    let mut descriptors = Vec::new();
    // SAFETY: the kernel filled the control data, and said how much of it.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(header);
        while !next.is_null() {
            if (*next).cmsg_level == libc::SOL_SOCKET && (*next).cmsg_type == libc::SCM_RIGHTS {
                let bytes = (*next).cmsg_len - libc::CMSG_LEN(0) as usize;
                let numbers = std::slice::from_raw_parts(libc::CMSG_DATA(next), bytes);
                let (numbers, _) = numbers.as_chunks::<{ size_of::<libc::c_int>() }>();
                for number in numbers {
                    let number = libc::c_int::from_ne_bytes(*number);
                    descriptors.push(OwnedFd::from_raw_fd(number));
                }
            }
            next = libc::CMSG_NXTHDR(header, next);
        }
    }
    descriptors
}

/// A system call that tells a length, once more where a signal came in between.
fn again(mut call: impl FnMut() -> isize) -> io::Result<usize> {
    loop {
        if let Ok(length) = usize::try_from(call()) {
            return Ok(length);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io::{Read, Seek, Write},
    };

    use super::*;

    #[test]
    fn a_message_arrives_whole_with_its_descriptors() {
        let (one, other) = Socket::pair().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"inside").unwrap();
        let files: Vec<OwnedFd> = (0..DESCRIPTORS_MAX)
            .map(|_| file.try_clone().unwrap().into())
            .collect();
        one.send(b"outside", &files).unwrap();
        one.send(b"alone", &[]).unwrap();
        let (bytes, mut got) = other.receive().unwrap().unwrap();
        assert_eq!((&bytes[..], got.len()), (&b"outside"[..], DESCRIPTORS_MAX));
        let mut file = File::from(got.pop().unwrap());
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "inside");
        let (bytes, got) = other.receive().unwrap().unwrap();
        assert_eq!((&bytes[..], got.len()), (&b"alone"[..], 0));
        drop(one);
        assert!(other.receive().unwrap().is_none());
    }

    #[test]
    fn what_is_too_long_is_not_sent() {
        let (one, _other) = Socket::pair().unwrap();
        assert!(one.send(&vec![1; LENGTH_MAX + 1], &[]).is_err());
    }
}
