//! What the page consists of. Plots, colours and formats are the report's.

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

/// The files of this crate.
macro_rules! files {
    ($($name:literal),+ $(,)?) => { [$(($name, include_str!(concat!("assets/", $name)))),+] };
}

const OWN: [(&str, &str); 24] = files![
    "index.html",
    "lab.css",
    "drawing.css",
    "editor.css",
    "runs.css",
    "watch.css",
    "live.css",
    "accessible.js",
    "api.js",
    "curves.js",
    "document.js",
    "editor.js",
    "fields.js",
    "grid.js",
    "inspector.js",
    "layout.js",
    "live.js",
    "main.js",
    "network.js",
    "page.js",
    "runs.js",
    "story.js",
    "watch.js",
    "windows.js",
];

/// The page.
pub(crate) async fn page() -> Response {
    asset(Path("index.html".to_owned())).await
}

/// A file of the page.
pub(crate) async fn asset(Path(name): Path<String>) -> Response {
    let own = OWN.iter().find(|(own, _)| *own == name).map(|(_, text)| *text);
    let Some(text) = own.or_else(|| warpline_report::asset(&name)) else {
        return (StatusCode::NOT_FOUND, "there is no such file").into_response();
    };
    let kind = match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        _ => "text/javascript; charset=utf-8",
    };
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}
