//! Guests where there can be none: a run that has some is refused.

use std::path::Path;

use warpline_core::Pace;
use warpline_live::port::LivePort;

use crate::run::RunError;
use crate::run::course::Account;
use crate::run::programs::{Evidence, Readiness};
use crate::run::routers::Traffic;
use crate::run::session::Session;
use warpline_results::{GuestMachine, ProgramRow};
use warpline_scenario::addresses::AddressPlan;
use warpline_scenario::{Expanded, Host, Scenario};

/// What a guest reports.
#[derive(Debug)]
pub(in crate::run) enum Report {}

/// There are none.
#[derive(Debug)]
pub(in crate::run) enum Guests {}

impl Guests {
    pub(in crate::run) fn plan(
        scenario: &Scenario,
        _: &Expanded,
        _: &AddressPlan,
        _: &Readiness,
        _: impl Fn(u32) -> u32,
    ) -> Result<Option<Self>, RunError> {
        match scenario.host.iter().any(Host::is_guest) {
            true => {
                Err(RunError::Live("guests need Linux on x86-64; use endpoint = \"live\" here".to_owned()))
            }
            false => Ok(None),
        }
    }
    pub(in crate::run) fn hosts(&self) -> &[(String, u32)] {
        match *self {}
    }
    pub(in crate::run) fn introduce(&self, _: &mut Traffic) {
        match *self {}
    }
}

/// There are none.
#[derive(Debug)]
pub(in crate::run) enum Machines {}

impl Machines {
    pub(in crate::run) fn new(guests: Guests) -> Result<Self, RunError> {
        match guests {}
    }
    pub(in crate::run) fn boot(&mut self, _: &mut dyn FnMut() -> bool) -> Result<bool, RunError> {
        match *self {}
    }
    pub(in crate::run) fn has_notices(&self) -> bool {
        match *self {}
    }
    pub(in crate::run) fn exchange_notices(&self, _: &mut Readiness) {
        match *self {}
    }
    pub(in crate::run) fn tell_end(&self) {
        match *self {}
    }
    pub(in crate::run) fn hurry(&mut self) -> Vec<Report> {
        match *self {}
    }
    pub(in crate::run) fn ports(&mut self) -> Result<Vec<Box<dyn LivePort>>, RunError> {
        match *self {}
    }
    pub(in crate::run) fn processes(&self) -> Vec<u32> {
        match *self {}
    }
    pub(in crate::run) fn limit(&self, _: bool) -> Result<(), RunError> {
        match *self {}
    }
    pub(in crate::run) fn follow(&self, _: &Pace) {
        match *self {}
    }
    pub(in crate::run) fn nudge(&self) {
        match *self {}
    }
    pub(in crate::run) fn look(&mut self) -> Option<String> {
        match *self {}
    }
    pub(in crate::run) fn finish(&mut self) -> Result<Vec<Report>, RunError> {
        match *self {}
    }
    pub(in crate::run) fn results(&self, _: Vec<Report>) -> GuestResults<'_> {
        match *self {}
    }
    pub(in crate::run) fn kernel(&self) -> &str {
        match *self {}
    }
}

/// There are none.
#[derive(Debug)]
pub(in crate::run) struct GuestResults<'a> {
    pub(in crate::run) machines: Vec<GuestMachine>,
    none: std::marker::PhantomData<&'a Machines>,
}

impl GuestResults<'_> {
    pub(in crate::run) fn account(
        &self,
        _: bool,
        _: &Traffic,
        _: (&Path, &Evidence),
        _: &mut Session<'_>,
        _: &mut Account,
    ) -> Result<Vec<ProgramRow>, RunError> {
        let _ = self.none;
        Ok(Vec::new())
    }
}
