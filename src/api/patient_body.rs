//! Bodies that stop arriving: whoever sends one has to go on sending.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::{BoxError, body::Body};
use hyper::body::{Bytes, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

/// A body whose next piece is waited for only so long. How long the whole takes is bounded with the request.
pub(super) struct PatientBody {
    inner: Body,
    patience: Duration,
    end: Pin<Box<Sleep>>,
}

impl PatientBody {
    /// Waits this long for each piece.
    pub(super) fn new(inner: Body, patience: Duration) -> Self {
        Self { inner, patience, end: Box::pin(tokio::time::sleep(patience)) }
    }
}

impl hyper::body::Body for PatientBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(context) {
            let end = Instant::now() + self.patience;
            self.end.as_mut().reset(end);
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        match self.end.as_mut().poll(context) {
            Poll::Ready(()) => {
                let what = format!("nothing of the body came for {} s", self.patience.as_secs());
                Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::TimedOut, what).into())))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, Full};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stops_is_given_up_and_one_that_arrives_is_not() {
        let whole = PatientBody::new(Body::new(Full::new(Bytes::from("whole"))), Duration::from_secs(10));
        assert_eq!(whole.collect().await.unwrap().to_bytes(), "whole");
        let began = Instant::now();
        let fault = PatientBody::new(Body::new(Stalled), Duration::from_secs(10)).collect().await.unwrap_err();
        assert!(fault.to_string().contains("for 10 s") && began.elapsed() == Duration::from_secs(10), "{fault}");
    }

    /// Never gives a piece.
    struct Stalled;

    impl hyper::body::Body for Stalled {
        type Data = Bytes;
        type Error = io::Error;

        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
            Poll::Pending
        }
    }
}
