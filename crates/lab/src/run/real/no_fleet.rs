//! Guests where there are none: a run that has some is refused.

use std::path::Path;

use warpline_core::{Pace, TimeDelta};
use warpline_live::port::LivePort;
use warpline_results::{FlowRow, FlowSample, GuestMachine, ProgramRow, TransferRow};

use super::programs::Evidence;
use super::readiness::Readiness;
use super::traffic::Traffic;
use crate::run::RunError;
use crate::run::addresses::AddressPlan;
use crate::scenario::{Expanded, Scenario};

/// What a guest reports.
#[derive(Debug)]
pub(super) enum Report {}

/// There is none.
#[derive(Debug)]
pub(super) enum Fleet {}

impl Fleet {
    pub(super) fn plan(
        scenario: &Scenario,
        _: &Expanded,
        _: &AddressPlan,
        _: &Readiness,
        _: impl Fn(u32) -> u32,
    ) -> Result<Option<Self>, RunError> {
        match scenario.host.iter().any(crate::scenario::Host::is_guest) {
            true => {
                Err(RunError::Live("guests need Linux on x86-64; use endpoint = \"live\" here".to_owned()))
            }
            false => Ok(None),
        }
    }
    pub(super) fn hosts(&self) -> &[(String, u32)] {
        match *self {}
    }
    pub(super) fn introduce(&self, _: &mut Traffic) {
        match *self {}
    }
    pub(super) fn boot(&mut self, _: &mut dyn FnMut() -> bool) -> Result<bool, RunError> {
        match *self {}
    }
    pub(super) fn has_notices(&self) -> bool {
        match *self {}
    }
    pub(super) fn exchange_notices(&self, _: &mut Readiness) {
        match *self {}
    }
    pub(super) fn tell_end(&self) {
        match *self {}
    }
    pub(super) fn hurry(&mut self) -> Vec<Report> {
        match *self {}
    }
    pub(super) fn ports(&mut self) -> Result<Vec<Box<dyn LivePort>>, RunError> {
        match *self {}
    }
    pub(super) fn processes(&self) -> Vec<u32> {
        match *self {}
    }
    pub(super) fn limit(&self, _: bool) -> Result<(), RunError> {
        match *self {}
    }
    pub(super) fn follow(&self, _: &Pace) {
        match *self {}
    }
    pub(super) fn nudge(&self) {
        match *self {}
    }
    pub(super) fn look(&mut self) -> Option<String> {
        match *self {}
    }
    pub(super) fn finish(&mut self) -> Result<Vec<Report>, RunError> {
        match *self {}
    }
    pub(super) fn judge(
        &self,
        _: &[Report],
        _: bool,
        _: &Path,
        _: &Evidence,
    ) -> std::io::Result<(Vec<ProgramRow>, Vec<String>)> {
        match *self {}
    }
    pub(super) fn samples(&self, _: &Traffic, _: TimeDelta) -> Vec<FlowSample> {
        match *self {}
    }
    pub(super) fn complete(&self, _: &mut [FlowRow], _: &Traffic, _: &[Report], _: TimeDelta) -> Vec<String> {
        match *self {}
    }
    pub(super) fn transfers(&self, _: &Traffic, _: &[Report], _: u64) -> Vec<TransferRow> {
        match *self {}
    }
    pub(super) fn rows(&self, _: &[Report]) -> (String, Vec<GuestMachine>) {
        match *self {}
    }
}
