//! Messages with descriptors over a pair of `SOCK_SEQPACKET` sockets: each is whole, and none is
//! longer than [`LENGTH_MAX`].

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use rustix::{
    cmsg_space,
    io::retry_on_intr,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
        SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg,
        sendmsg, socketpair,
        sockopt::{Timeout, set_socket_timeout},
    },
};

/// Bytes of the longest message.
pub const LENGTH_MAX: usize = 64 << 10;
/// Descriptors of a message: as many as the kernel takes (`SCM_MAX_FD`).
const DESCRIPTORS_MAX: usize = 253;
/// Bytes of the control data of a message with that many.
const CONTROL_BYTES: usize = cmsg_space!(ScmRights(DESCRIPTORS_MAX));

/// One end of the pair.
#[derive(Debug)]
pub struct Socket(OwnedFd);

/// A message: its bytes, and the descriptors that came with them.
pub type Message = (Vec<u8>, Vec<OwnedFd>);

impl Socket {
    /// Both ends.
    pub fn pair() -> io::Result<(Self, Self)> {
        let kind = SocketType::SEQPACKET;
        let ends = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
        Ok((Self(ends.0), Self(ends.1)))
    }

    /// Sets the timeout of [`receive`](Self::receive).
    pub fn set_patience(&self, patience: Duration) -> io::Result<()> {
        Ok(set_socket_timeout(&self.0, Timeout::Recv, Some(patience))?)
    }

    /// Sends a message.
    ///
    /// # Errors
    ///
    /// When it is too long, has too many descriptors, or the other end is closed.
    pub fn send(&self, bytes: &[u8], descriptors: &[OwnedFd]) -> io::Result<()> {
        let too_long = || io::Error::other("the message is too long");
        let descriptors: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); CONTROL_BYTES];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let is_taken =
            descriptors.is_empty() || control.push(SendAncillaryMessage::ScmRights(&descriptors));
        if bytes.len() > LENGTH_MAX || !is_taken {
            return Err(too_long());
        }
        let parts = [IoSlice::new(bytes)];
        let sent = retry_on_intr(|| sendmsg(&self.0, &parts, &mut control, SendFlags::NOSIGNAL))?;
        (sent == bytes.len()).then_some(()).ok_or_else(too_long)
    }

    /// The next message; `None` where the other end is closed.
    ///
    /// # Errors
    ///
    /// When it is too long, or the kernel refuses.
    pub fn receive(&self) -> io::Result<Option<Message>> {
        let mut bytes = vec![0u8; LENGTH_MAX];
        let mut space = [MaybeUninit::uninit(); CONTROL_BYTES];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let message = retry_on_intr(|| {
            let mut parts = [IoSliceMut::new(&mut bytes)];
            recvmsg(&self.0, &mut parts, &mut control, flags)
        })?;
        let descriptors = control.drain().filter_map(|part| {
            let RecvAncillaryMessage::ScmRights(descriptors) = part else {
                return None;
            };
            Some(descriptors)
        });
        let descriptors = descriptors.flatten().collect();
        let cut = ReturnFlags::TRUNC | ReturnFlags::CTRUNC;
        if message.flags.intersects(cut) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the message is too long",
            ));
        }
        bytes.truncate(message.bytes);
        Ok((message.bytes > 0).then_some((bytes, descriptors)))
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
