//! What the server says if it cannot do what it was asked: a status and a sentence.

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// Why something was not done.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
}

/// An answer, or why there is none.
pub(crate) type Answer<T> = Result<T, Refusal>;

impl Refusal {
    /// What was asked for is wrong.
    pub(crate) fn bad(message: impl Into<String>) -> Refusal {
        Refusal { status: StatusCode::BAD_REQUEST, message: message.into() }
    }
    /// There is no such thing.
    pub(crate) fn missing(message: impl Into<String>) -> Refusal {
        Refusal { status: StatusCode::NOT_FOUND, message: message.into() }
    }
    /// It is not allowed.
    pub(crate) fn forbidden(message: impl Into<String>) -> Refusal {
        Refusal { status: StatusCode::FORBIDDEN, message: message.into() }
    }
    /// Something else has happened in between.
    pub(crate) fn conflict(message: impl Into<String>) -> Refusal {
        Refusal { status: StatusCode::CONFLICT, message: message.into() }
    }
    /// It did not work.
    pub(crate) fn failed(message: impl std::fmt::Display) -> Refusal {
        Refusal { status: StatusCode::INTERNAL_SERVER_ERROR, message: message.to_string() }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status, Json(json!({ "error": self.message }))).into_response()
    }
}

impl From<JsonRejection> for Refusal {
    fn from(rejection: JsonRejection) -> Refusal {
        Refusal { status: rejection.status(), message: rejection.body_text() }
    }
}

impl From<QueryRejection> for Refusal {
    fn from(rejection: QueryRejection) -> Refusal {
        Refusal { status: rejection.status(), message: rejection.body_text() }
    }
}

/// Does work that may take long on a thread of its own.
pub(crate) async fn work<T: Send + 'static>(work: impl FnOnce() -> Answer<T> + Send + 'static) -> Answer<T> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|_| Err(Refusal::failed("a part of the lab has failed; this is a fault of Warpline")))
}
