//! The loader at its end of the socket: a request, an answer, until the other end is closed.

use std::os::fd::{AsFd, OwnedFd};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::heap;

use super::{
    Loader,
    request::{Answer, Request},
    socket::{LENGTH_MAX, Message, Socket},
};

/// Bytes of the longest refusal; written as JSON a byte takes up to six.
const TEXT_MAX: usize = LENGTH_MAX / 8;

/// Answers requests until the other end is closed. The lock of the daemon is held until then.
pub fn serve(socket: &Socket, loader: &mut dyn Loader) -> anyhow::Result<()> {
    let mut lock = Vec::new();
    loop {
        loader
            .wait(socket.as_fd())
            .context("waiting for a request")?;
        let message = match socket.receive() {
            Ok(None) => return Ok(()),
            Ok(Some(message)) => Ok(message),
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => Err(error),
            Err(error) => return Err(error).context("waiting for a request"),
        };
        let answer = message
            .context("reading a request")
            .and_then(|message| answer(message, loader, &mut lock));
        let (answer, descriptors): (Answer, _) = match answer {
            Ok((answer, descriptors)) => (Ok(answer), descriptors),
            Err(error) => (Err(cut(format!("{error:#}"))), Vec::new()),
        };
        let bytes = serde_json::to_vec(&answer).context("writing an answer")?;
        match socket.send(&bytes, &descriptors) {
            // The socket was closed while the request ran; its work is done.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(()),
            sent => sent.context("sending an answer")?,
        }
        // A program that is loaded takes ten times what is kept of it.
        heap::give_back();
    }
}

fn answer(
    (bytes, descriptors): Message,
    loader: &mut dyn Loader,
    lock: &mut Vec<OwnedFd>,
) -> anyhow::Result<(Value, Vec<OwnedFd>)> {
    let request = Request::read(&bytes)?;
    if request == Request::Hold {
        ensure!(descriptors.len() == 1, "a lock has one descriptor");
        *lock = descriptors;
        return Ok((Value::Null, Vec::new()));
    }
    ensure!(
        descriptors.is_empty(),
        "a request comes without descriptors"
    );
    // A failed request has no effect on the next one, which starts from the pinned objects.
    carry_out(request, loader)
}

fn carry_out(request: Request, loader: &mut dyn Loader) -> anyhow::Result<(Value, Vec<OwnedFd>)> {
    let mut descriptors = Vec::new();
    let answer = match request {
        Request::Open(pins) => {
            let held = loader.open(&pins)?;
            let sets = held.table.as_ref().map(|table| table.sets);
            descriptors.extend(held.table.map(|table| table.policies));
            json!((
                held.links,
                held.logs,
                held.record_words,
                sets,
                held.has_other_layout
            ))
        }
        Request::OpenMaps(plan) => {
            let maps = loader.open_maps(&plan)?;
            let (names, maps): (Vec<String>, _) = maps.into_iter().unzip();
            descriptors = maps;
            json!(names)
        }
        Request::Hold => Value::Null,
        Request::Rename(names) => json!(loader.rename(&names)?),
        Request::Prepare(plan) => json!(loader.prepare(&plan)?),
        Request::Attach(plan) => json!(loader.attach(&plan)?),
        Request::KeepPinned => json!(loader.keep_pinned()?),
        Request::PlaceAtTcx(interface, program) => {
            json!(loader.place_at_tcx(interface, program)?)
        }
        Request::StaleNext => json!(loader.stale_next()?),
        Request::ForgetReplaced => json!(loader.forget_replaced()?),
        Request::Detach(name) => json!(loader.detach(&name)?),
        Request::DetachAll => json!(loader.detach_all()?),
    };
    Ok((answer, descriptors))
}

/// Keeps the start and the end of a text that is too long for a message: the verifier gives its
/// reason at the end.
fn cut(text: String) -> String {
    if text.len() <= TEXT_MAX {
        return text;
    }
    let front = text.floor_char_boundary(TEXT_MAX / 4);
    let end = text.ceil_char_boundary(text.len() - TEXT_MAX / 2);
    format!("{} [...] {}", &text[..front], &text[end..])
}

#[cfg(test)]
mod tests {
    use std::{fs::File, thread};

    use proptest::{
        prelude::*,
        strategy::ValueTree as _,
        test_runner::{Config, TestRunner},
    };

    use super::*;
    use crate::loader::{Local, Pinned, Remote};

    #[test]
    fn garbage_on_the_socket_is_refused_and_the_next_request_answered() {
        let (own, theirs) = Socket::pair().unwrap();
        let server = thread::spawn(move || serve(&theirs, &mut Local::default()));
        let mut runner = TestRunner::new(Config::default());
        let letters = "[\\[\\]{}\":,0-9a-z-]{1,200}".prop_map(String::into_bytes);
        let garbage = prop_oneof![prop::collection::vec(any::<u8>(), 1..2_000), letters];
        for round in 0..2_000 {
            let bytes = garbage.new_tree(&mut runner).unwrap().current();
            let descriptors: Vec<OwnedFd> = (0..round % 3)
                .map(|_| File::open("/dev/null").unwrap().into())
                .collect();
            own.send(&bytes, &descriptors).unwrap();
            let (answer, descriptors) = own.receive().unwrap().unwrap();
            let answer: Answer = serde_json::from_slice(&answer).unwrap();
            assert!(answer.is_err(), "{answer:?}");
            assert!(descriptors.is_empty());
        }
        let request = serde_json::to_vec(&Request::DetachAll).unwrap();
        own.send(&request, &[File::open("/dev/null").unwrap().into()])
            .unwrap();
        let (answer, _) = own.receive().unwrap().unwrap();
        assert!(String::from_utf8_lossy(&answer).contains("without descriptors"));
        // Requests in an invalid order are errors as well.
        let mut remote = Remote::new(own, None).unwrap();
        let error = remote.detach("eth0").unwrap_err().to_string();
        assert!(error.contains("no directory of pins is open"), "{error}");
        let error = remote.open("relative".as_ref()).unwrap_err().to_string();
        assert!(error.contains("not an absolute path"), "{error}");
        drop(remote);
        server.join().unwrap().unwrap();
    }

    #[test]
    fn a_refusal_of_any_length_is_answered_and_the_next_request_too() {
        struct Refuses;
        impl Loader for Refuses {
            fn open(&mut self, _: &std::path::Path) -> anyhow::Result<Pinned> {
                unreachable!("not asked");
            }
            fn open_maps(
                &mut self,
                _: &crate::loader::MapPlan,
            ) -> anyhow::Result<crate::loader::Descriptors> {
                unreachable!("not asked");
            }
            fn rename(
                &mut self,
                _: &std::collections::BTreeMap<String, String>,
            ) -> anyhow::Result<()> {
                unreachable!("not asked");
            }
            fn prepare(&mut self, _: &crate::loader::InterfacePlan) -> anyhow::Result<()> {
                unreachable!("not asked");
            }
            fn attach(
                &mut self,
                _: &crate::loader::InterfacePlan,
            ) -> anyhow::Result<crate::loader::Attachment> {
                unreachable!("not asked");
            }
            fn keep_pinned(&mut self) -> anyhow::Result<bool> {
                Ok(false)
            }
            fn place_at_tcx(
                &mut self,
                _: u32,
                _: u32,
            ) -> anyhow::Result<Option<crate::loader::Place>> {
                Ok(None)
            }
            fn stale_next(&mut self) -> anyhow::Result<Vec<String>> {
                Ok(Vec::new())
            }
            fn forget_replaced(&mut self) -> anyhow::Result<()> {
                Ok(())
            }
            fn detach(&mut self, _: &str) -> anyhow::Result<bool> {
                Ok(true)
            }
            fn detach_all(&mut self) -> anyhow::Result<Vec<String>> {
                anyhow::bail!("{}", "x".repeat(1 << 20))
            }
        }
        let (own, theirs) = Socket::pair().unwrap();
        let server = thread::spawn(move || serve(&theirs, &mut Refuses));
        let mut remote = Remote::new(own, None).unwrap();
        let error = remote.detach_all().unwrap_err().to_string();
        assert!(error.contains(" [...] "), "{}", error.len());
        assert!(remote.detach("eth0").unwrap());
        drop(remote);
        server.join().unwrap().unwrap();
    }
}
