//! The server: what there is to ask for, and who answers.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, Path as UrlPath, Query, State};
use axum::http::header;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use warpline_disk::OsDirectory;
use warpline_lab::btc::capacity;
use warpline_report::{ReportData, render};
use warpline_results::set::SCENARIO_FILE;
use warpline_results::tables::FILE_MODE;
use warpline_scenario::json_schema;

use crate::answer::{Answer, Refusal, work};
use crate::edit::{Change, change};
use crate::files::{Folder, parts};
use crate::guard::{Guard, REPORTS, guard, secret};
use crate::packets::{self, Sought, Span, Whose};
use crate::runs::{Runs, Wish};
#[cfg(unix)]
use crate::terminal::{self, Terminals};
use crate::{assets, drawing, gallery, live};

/// Bytes of a request, at most.
const LARGEST: usize = 8 << 20;
/// Addresses of reports that are known at the same time.
const MOST_REPORTS: usize = 200;
/// How often to look whether the lab is to end.
const LOOK: Duration = Duration::from_millis(50);
/// Where the places of nodes in drawings are kept, in the folder of runs.
const PLACES: &str = ".lab";

/// What a lab is started with.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program that runs scenarios: `warpline`.
    pub program: PathBuf,
    /// A scenario to open, or the folder of scenarios.
    pub place: PathBuf,
    /// The folder of runs; it is made if need be.
    pub runs: PathBuf,
    /// The port; 0 for any that is free.
    pub port: u16,
}

/// Why there is no lab.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// There is no such scenario or folder, or it cannot be opened.
    #[error("cannot open {path}: {source}")]
    Open {
        /// What was to be opened.
        path: PathBuf,
        /// Why it could not.
        source: std::io::Error,
    },
    /// The server could not begin.
    #[error(
        "cannot serve the lab at port {port} of this machine: {source}; another port may be free (--port)"
    )]
    Serve {
        /// The port.
        port: u16,
        /// Why it could not.
        source: std::io::Error,
    },
}

/// All that answers need.
#[derive(Debug)]
pub(crate) struct Lab {
    pub(crate) guard: Guard,
    scenarios: Folder,
    /// The scenario to open first.
    first: Option<String>,
    runs: Arc<Runs>,
    #[cfg(unix)]
    terminals: Arc<Terminals>,
    /// Which runs are behind the address of a report.
    reports: Mutex<BTreeMap<String, Vec<PathBuf>>>,
}

/// A lab whose address is known, and which does not answer yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    lab: Arc<Lab>,
    port: u16,
}

impl Server {
    /// Opens the folders and the port.
    ///
    /// # Errors
    /// If one of them cannot be opened.
    pub fn bind(options: &Options) -> Result<Server, LabError> {
        let opened = |path: &Path| {
            let path = path.to_owned();
            move |source| LabError::Open { path, source }
        };
        let place = &options.place;
        let is_file = fs::metadata(place).map_err(opened(place))?.is_file();
        let (folder, first) = match (is_file, place.parent(), place.file_name()) {
            (true, Some(parent), Some(name)) => (parent, Some(name.to_string_lossy().into_owned())),
            _ => (place.as_path(), None),
        };
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let scenarios = Folder::open(folder).map_err(opened(folder))?;
        fs::create_dir_all(&options.runs).map_err(opened(&options.runs))?;
        let runs = Folder::open(&options.runs).map_err(opened(&options.runs))?;
        let served = |source| LabError::Serve { port: options.port, source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)).map_err(served)?;
        listener.set_nonblocking(true).map_err(served)?;
        let port = listener.local_addr().map_err(served)?.port();
        let token = secret().map_err(served)?;
        let lab = Lab {
            guard: Guard::new(token, port),
            scenarios,
            first,
            runs: Arc::new(Runs::new(runs, options.program.clone())),
            #[cfg(unix)]
            terminals: Arc::new(Terminals::new(options.program.clone())),
            reports: Mutex::default(),
        };
        Ok(Server { listener, lab: Arc::new(lab), port })
    }

    /// The address of the page. What follows the # is the key, which browsers do not send.
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/#{}", self.port, self.lab.guard.token())
    }

    /// An address that lets one page in, once: for a command line, which others can read.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn address_for_once(&self) -> std::io::Result<String> {
        let key = secret()?;
        self.lab.guard.let_in_once(key.clone());
        Ok(format!("http://127.0.0.1:{}/#once-{key}", self.port))
    }

    /// Answers until `stop` says so; then it ends the runs.
    ///
    /// # Errors
    /// If the system gives no threads, or the port fails.
    pub fn serve(self, stop: impl Fn() -> bool) -> Result<(), LabError> {
        let port = self.port;
        let served = |source| LabError::Serve { port, source };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(served)?;
        let result = runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(self.listener).map_err(served)?;
            let router = router(Arc::clone(&self.lab));
            let answering = async { axum::serve(listener, router).await.map_err(served) };
            let stopped = async {
                while !stop() {
                    tokio::time::sleep(LOOK).await;
                }
            };
            tokio::select! {
                failed = answering => failed?,
                () = stopped => {}
            }
            #[cfg(unix)]
            self.lab.terminals.close_all();
            self.lab.runs.close().await;
            Ok(())
        });
        runtime.shutdown_background();
        result
    }
}

fn router(lab: Arc<Lab>) -> Router {
    let interface = Router::new()
        .route("/enter", post(enter))
        .route("/hello", get(hello))
        .route("/schema", get(async || Json(json_schema().clone())))
        .route("/gallery", get(async || Json(json!(gallery::all()))))
        .route("/file", get(read).put(write))
        .route("/check", post(check))
        .route("/edit", post(edit))
        .route("/places", get(places).put(keep_places))
        .route("/runs", get(list).post(start))
        .route("/runs/stop", post(stop))
        .route("/runs/rename", post(rename))
        .route("/runs/events", get(events))
        .route("/runs/watch", get(watched))
        .route("/runs/packets", get(window))
        .route("/runs/step", get(step))
        .route("/runs/packet", get(story))
        .route("/live", get(in_progress))
        .route("/live/change", post(change_link));
    #[cfg(unix)]
    let interface = interface.route("/terminals", post(open_terminal)).route("/terminals/type", post(typed));
    let interface = interface.route("/report", post(report));
    Router::new()
        .route("/", get(assets::page))
        .route("/assets/{name}", get(assets::asset))
        .route(&format!("{REPORTS}{{ticket}}"), get(show_report))
        .nest(
            "/api",
            interface
                .fallback(async || Refusal::missing("there is no such thing in the interface of the lab")),
        )
        .layer(DefaultBodyLimit::max(LARGEST))
        .layer(from_fn_with_state(Arc::clone(&lab), guard))
        .with_state(lab)
}

type Body<T> = Result<Json<T>, JsonRejection>;
type Asked<T> = Result<Query<T>, QueryRejection>;
type Own = State<Arc<Lab>>;

async fn hello(State(lab): Own) -> Answer<Json<Value>> {
    work(move || {
        Ok(Json(json!({
            "version": env!("CARGO_PKG_VERSION"),
            "folder": lab.scenarios.path().to_string_lossy(),
            "runs": lab.runs.folder().path().to_string_lossy(),
            "first": lab.first,
            "files": lab.scenarios.scenarios(),
        })))
    })
    .await
}

#[derive(Deserialize)]
struct Entry {
    key: String,
}

/// Gives the key to a page that was opened by an address for once.
async fn enter(State(lab): Own, body: Body<Entry>) -> Answer<Json<Value>> {
    let Json(Entry { key }) = body?;
    lab.guard.enter(&key).map(|token| Json(json!({ "token": token })))
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

async fn read(State(lab): Own, asked: Asked<Named>) -> Answer<Response> {
    let Query(Named { name }) = asked?;
    work(move || lab.scenarios.read(&name).map(|text| Json(text).into_response())).await
}

#[derive(Deserialize)]
struct Written {
    name: String,
    text: String,
    version: Option<String>,
}

async fn write(State(lab): Own, body: Body<Written>) -> Answer<Json<Value>> {
    let Json(Written { name, text, version }) = body?;
    work(move || {
        let version = lab.scenarios.write(&name, &text, version.as_deref())?;
        Ok(Json(json!({ "name": name, "version": version, "files": lab.scenarios.scenarios() })))
    })
    .await
}

#[derive(Deserialize)]
struct Draft {
    /// The file that it belongs to, if it has one.
    name: Option<String>,
    text: String,
    #[serde(default)]
    changes: Vec<Change>,
}

impl Draft {
    /// What is wrong with the text, and how it is drawn.
    fn checked(&self, lab: &Lab, text: &str) -> Answer<drawing::Checked> {
        let name = self.name.as_deref().unwrap_or("scenario.toml");
        let file = lab.scenarios.path().join(parts(name)?);
        let folder = file.parent().unwrap_or(lab.scenarios.path());
        Ok(drawing::check(name, text, folder))
    }
}

async fn check(State(lab): Own, body: Body<Draft>) -> Answer<Response> {
    let Json(draft) = body?;
    work(move || draft.checked(&lab, &draft.text).map(|checked| Json(checked).into_response())).await
}

async fn edit(State(lab): Own, body: Body<Draft>) -> Answer<Json<Value>> {
    let Json(draft) = body?;
    work(move || {
        let text = change(&draft.text, &draft.changes)?;
        let checked = draft.checked(&lab, &text)?;
        Ok(Json(json!({ "text": text, "checked": checked })))
    })
    .await
}

impl Lab {
    /// Where the places of a scenario's nodes are kept.
    fn places_of(&self, name: &str) -> Answer<PathBuf> {
        let name = parts(name)?.to_string_lossy().replace('/', "+");
        Ok(self.runs.folder().path().join(PLACES).join(format!("{name}.json")))
    }
}

async fn places(State(lab): Own, asked: Asked<Named>) -> Answer<Json<Value>> {
    let Query(Named { name }) = asked?;
    let path = lab.places_of(&name)?;
    work(move || {
        let text = fs::read_to_string(path).unwrap_or_default();
        Ok(Json(serde_json::from_str(&text).unwrap_or_else(|_| json!({}))))
    })
    .await
}

#[derive(Deserialize)]
struct Places {
    name: String,
    places: BTreeMap<String, [f64; 2]>,
}

async fn keep_places(State(lab): Own, body: Body<Places>) -> Answer<Json<Value>> {
    let Json(Places { name, places }) = body?;
    let path = lab.places_of(&name)?;
    work(move || {
        let folder = path.parent().map(fs::create_dir_all).transpose();
        let text = json!(places).to_string();
        let written = folder.and_then(|_| {
            warpline_disk::write_whole(&OsDirectory::here(), &path, FILE_MODE, text.as_bytes())
        });
        written.map_err(|error| Refusal::failed(format!("cannot keep the places of the nodes: {error}")))?;
        Ok(Json(json!({})))
    })
    .await
}

async fn list(State(lab): Own) -> Answer<Json<Value>> {
    work(move || Ok(Json(lab.runs.list()))).await
}

async fn start(State(lab): Own, body: Body<Wish>) -> Answer<Json<Value>> {
    let Json(wish) = body?;
    work(move || lab.runs.start(&wish, &lab.scenarios).map(Json)).await
}

#[derive(Deserialize)]
struct OfRun {
    run: String,
    #[serde(default)]
    name: String,
}

async fn stop(State(lab): Own, body: Body<OfRun>) -> Answer<Json<Value>> {
    let Json(OfRun { run, .. }) = body?;
    Ok(Json(
        json!({ "stopped": lab.runs.stop(&run, "you stopped it; what was measured until then is kept")? }),
    ))
}

async fn rename(State(lab): Own, body: Body<OfRun>) -> Answer<Json<Value>> {
    let Json(OfRun { run, name }) = body?;
    work(move || lab.runs.rename(&run, &name).map(|()| Json(json!({ "run": name })))).await
}

#[derive(Deserialize)]
struct Since {
    run: String,
    /// How much of what the run says is known already.
    #[serde(default)]
    from: usize,
}

/// What a run has said so far. A page asks again and again: an answer that stays open would take one of the few connections that all pages of a browser
/// share, and terminals need these.
async fn events(State(lab): Own, asked: Asked<Since>) -> Answer<Json<Value>> {
    let Query(Since { run, from }) = asked?;
    let course = lab.runs.course(&run)?;
    work(move || {
        let (lines, next, over) = course.since(from);
        let events: Vec<Value> = lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
        Ok(Json(json!({ "events": events, "next": next, "over": over })))
    })
    .await
}

/// What can be changed now. Those that this lab has started have the name of their run.
async fn in_progress(State(lab): Own) -> Answer<Json<Value>> {
    work(move || {
        let mut found = json!(live::all());
        for one in found.as_array_mut().into_iter().flatten() {
            let own = one["process"].as_u64().and_then(|process| lab.runs.of_process(process));
            one["own"] = own.map_or(Value::Null, Value::from);
        }
        Ok(Json(json!({ "all": found, "keys": warpline_scenario::Change::keys() })))
    })
    .await
}

async fn change_link(body: Body<live::Wish>) -> Answer<Json<Value>> {
    let Json(wish) = body?;
    work(move || live::change(&wish).map(Json)).await
}

/// Opens a terminal for as long as its answer is read.
#[cfg(unix)]
async fn open_terminal(State(lab): Own, body: Body<terminal::Wish>) -> Answer<Response> {
    let Json(wish) = body?;
    let (follower, reader) = work(move || lab.terminals.open(&wish)).await?;
    Ok(terminal::stream(follower, reader))
}

#[cfg(unix)]
#[derive(Deserialize)]
struct Typed {
    terminal: u64,
    text: String,
}

#[cfg(unix)]
async fn typed(State(lab): Own, body: Body<Typed>) -> Answer<Json<Value>> {
    let Json(Typed { terminal, text }) = body?;
    work(move || lab.terminals.type_in(terminal, &text).map(|()| Json(json!({})))).await
}

async fn watched(State(lab): Own, asked: Asked<OfRun>) -> Answer<Json<Value>> {
    let Query(OfRun { run, .. }) = asked?;
    work(move || {
        let directory = lab.runs.directory(&run)?;
        let events = packets::count(&directory)?;
        let text = fs::read_to_string(directory.join(SCENARIO_FILE));
        let text =
            text.map_err(|error| Refusal::missing(format!("the scenario of {run} cannot be read: {error}")))?;
        let checked = drawing::check(SCENARIO_FILE, &text, &directory);
        Ok(Json(json!({ "run": run, "events": events, "checked": checked })))
    })
    .await
}

async fn window(State(lab): Own, asked: Asked<Span>) -> Answer<Response> {
    let Query(span) = asked?;
    work(move || {
        packets::window(&lab.runs.directory(&span.run)?, &span).map(|window| Json(window).into_response())
    })
    .await
}

async fn step(State(lab): Own, asked: Asked<Sought>) -> Answer<Response> {
    let Query(sought) = asked?;
    work(move || {
        packets::find(&lab.runs.directory(&sought.run)?, &sought).map(|found| Json(found).into_response())
    })
    .await
}

async fn story(State(lab): Own, asked: Asked<Whose>) -> Answer<Response> {
    let Query(whose) = asked?;
    work(move || {
        packets::story(&lab.runs.directory(&whose.run)?, &whose).map(|story| Json(story).into_response())
    })
    .await
}

#[derive(Deserialize)]
struct Several {
    runs: Vec<String>,
}

/// Gives a report an address, which the page shows in a frame without rights: a frame cannot send the key.
async fn report(State(lab): Own, body: Body<Several>) -> Answer<Json<Value>> {
    let Json(Several { runs }) = body?;
    let directories = runs.iter().map(|run| lab.runs.directory(run)).collect::<Answer<Vec<_>>>()?;
    let ticket = secret().map_err(Refusal::failed)?;
    let mut reports = lab.reports.lock().unwrap_or_else(PoisonError::into_inner);
    // Addresses are random: one of them goes, as good as any other.
    while reports.len() >= MOST_REPORTS && reports.pop_first().is_some() {}
    let address = format!("{REPORTS}{ticket}");
    reports.insert(ticket, directories);
    Ok(Json(json!({ "address": address })))
}

async fn show_report(State(lab): Own, UrlPath(ticket): UrlPath<String>) -> Answer<Response> {
    let known = lab.reports.lock().unwrap_or_else(PoisonError::into_inner).get(&ticket).cloned();
    let runs = known.ok_or_else(|| {
        Refusal::missing("this address of a report is no longer known; open the report in the lab again")
    })?;
    work(move || {
        let runs: Vec<&Path> = runs.iter().map(PathBuf::as_path).collect();
        let data = ReportData::read(&runs, capacity).map_err(Refusal::failed)?;
        Ok(([(header::CONTENT_TYPE, "text/html; charset=utf-8")], render(&data)).into_response())
    })
    .await
}
