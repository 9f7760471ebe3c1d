//! A chunked answer: a long one that comes in pieces, and is whole or seen not to be: where the
//! last piece does not come, the connection breaks.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::body::{Body, Bytes};
use hyper::body::Frame;
use tokio::sync::mpsc;

/// Pieces that wait for a slow client.
const PIECES_MAX: usize = 4;

/// Writes the response. Dropping this before [`end`](Self::end) cuts it off.
pub struct Pieces(mpsc::Sender<Option<Bytes>>);

/// The answer ended before its end.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the answer was cut off")]
pub struct Cut;

/// A writer, and the body that is written.
pub fn channel() -> (Pieces, Body) {
    let (pieces, body) = mpsc::channel(PIECES_MAX);
    (Pieces(pieces), Body::new(Written(body)))
}

impl Pieces {
    /// Writes a piece when there is room; returns `false` if the reader is gone.
    pub async fn write(&self, piece: String) -> bool {
        self.0.send(Some(piece.into())).await.is_ok()
    }

    /// Ends the response.
    pub async fn end(self) {
        // The reader may be gone.
        let _ = self.0.send(None).await;
    }
}

struct Written(mpsc::Receiver<Option<Bytes>>);

impl hyper::body::Body for Written {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        self.0.poll_recv(context).map(|piece| match piece {
            Some(Some(piece)) => Some(Ok(Frame::data(piece))),
            Some(None) => None,
            None => Some(Err(Cut)),
        })
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn an_answer_with_its_end_is_whole() {
        let (pieces, body) = channel();
        assert!(pieces.write("one\n".to_owned()).await);
        assert!(pieces.write("two\n".to_owned()).await);
        pieces.end().await;
        let whole = body.collect().await.unwrap().to_bytes();
        assert_eq!(whole, "one\ntwo\n");
    }

    #[tokio::test]
    async fn an_answer_without_its_end_is_an_error() {
        let (pieces, body) = channel();
        assert!(pieces.write("one\n".to_owned()).await);
        drop(pieces);
        assert!(body.collect().await.is_err());
    }
}
