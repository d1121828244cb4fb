//! What the server knows of the worker's offer: it is named in the hello, and replaced in the session when it changes.

use std::collections::VecDeque;
use std::sync::Arc;

use jobhall_protocol::{FEATURE_ABILITIES, Hello, ToServer};
use tokio::sync::watch;

use crate::offers::{Offer, Offers};

pub(super) struct Offering {
    offers: Offers,
    changes: watch::Receiver<Arc<Offer>>,
    /// The number of the offer that was sent last.
    last: u64,
    /// The numbers of the offers that are not answered yet.
    unanswered: VecDeque<u64>,
    /// Whether the server replaces offers in a session.
    replaces: bool,
}

impl Offering {
    pub fn new(offers: Offers) -> Offering {
        let changes = offers.changes();
        Offering { offers, changes, last: 0, unanswered: VecDeque::new(), replaces: false }
    }

    /// Waits for a new offer.
    pub async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// This hello with the current offer.
    pub fn hello(&mut self, hello: Hello) -> Hello {
        let offer = self.offers.now();
        self.last = offer.number;
        self.unanswered.clear();
        Hello { abilities: offer.abilities.clone(), accepts: offer.accepts.clone(), ..hello }
    }

    /// The server has welcomed that hello.
    pub fn welcomed(&mut self, features: &[String]) {
        self.replaces = features.iter().any(|feature| feature == FEATURE_ABILITIES);
        self.offers.session_has(self.last);
    }

    /// The message with the current offer, if the session has another one; an error if it cannot be replaced there.
    pub fn next(&mut self) -> Result<Option<ToServer>, CannotReplace> {
        let offer = self.offers.now();
        if offer.number == self.last {
            return Ok(None);
        }
        if !self.replaces {
            return Err(CannotReplace);
        }
        self.last = offer.number;
        self.unanswered.push_back(offer.number);
        let (abilities, accepts) = (offer.abilities.clone(), offer.accepts.clone());
        Ok(Some(ToServer::Abilities { abilities, accepts }))
    }

    /// The server has answered the oldest message, and has replaced the offer or refused to.
    pub fn answered(&mut self, is_set: bool) {
        if let Some(number) = self.unanswered.pop_front()
            && is_set
        {
            self.offers.session_has(number);
        }
    }
}

/// The server is too old: the offer of a session is that of its hello.
pub(super) struct CannotReplace;
