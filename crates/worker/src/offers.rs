//! What this worker offers: the types and commands of its worker file, as they are now. It is replaced as a whole when a
//! file changes. Running attempts see the new one for their next step.

use std::sync::Arc;
use std::time::Duration;

use jobhall_core::needs::SelectorError;
use jobhall_protocol::WorkerFile;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::abilities::{abilities, accepts};
use crate::attempt::filters::Filters;

/// How long an attempt waits until a changed file is declared.
const LOOK: Duration = Duration::from_secs(5);

/// What the worker offers at one time.
#[derive(Debug)]
pub(crate) struct Offer {
    /// Rises with each offer of this process.
    pub number: u64,
    pub file: Arc<WorkerFile>,
    pub filters: Arc<Filters>,
    /// The same for the session.
    pub abilities: String,
    pub accepts: String,
}

impl Offer {
    /// The offer with this file and these commands.
    pub fn new(number: u64, file: Arc<WorkerFile>, filters: Filters) -> Result<Offer, SelectorError> {
        let (abilities, accepts) = (abilities(&file, &filters)?, accepts(&file));
        Ok(Offer { number, file, filters: Arc::new(filters), abilities, accepts })
    }

    /// Whether this one differs for the session.
    pub fn is_other(&self, before: &Offer) -> bool {
        (&self.abilities, &self.accepts) != (&before.abilities, &before.accepts)
    }
}

/// The current offer, and how far it is known. All clones share it.
#[derive(Clone)]
pub(crate) struct Offers(Arc<Shared>);

struct Shared {
    now: watch::Sender<Arc<Offer>>,
    /// The number of the offer that the session has.
    session: watch::Sender<u64>,
    /// How often someone wants the files to be looked at, and how many of these wishes were met.
    wanted: watch::Sender<u64>,
    met: watch::Sender<u64>,
}

impl Offers {
    pub fn new(first: Offer) -> Offers {
        let counter = || watch::Sender::new(0);
        let now = watch::Sender::new(Arc::new(first));
        Offers(Arc::new(Shared { now, session: counter(), wanted: counter(), met: counter() }))
    }

    pub fn now(&self) -> Arc<Offer> {
        self.0.now.borrow().clone()
    }

    pub fn replace(&self, offer: Offer) {
        self.0.now.send_replace(Arc::new(offer));
    }

    /// Told of each new offer.
    pub fn changes(&self) -> watch::Receiver<Arc<Offer>> {
        self.0.now.subscribe()
    }

    /// The session takes jobs of the offer with this number.
    pub fn session_has(&self, number: u64) {
        self.0.session.send_replace(number);
    }

    /// Waits until the session has the offer with this number, or a later one.
    pub async fn until_session_has(&self, number: u64) {
        let mut session = self.0.session.subscribe();
        let _never_closed = session.wait_for(|has| *has >= number).await;
    }

    /// Waits until the files were looked at and what they are now is declared, or for a bounded time.
    pub async fn look(&self) {
        let mut met = self.0.met.subscribe();
        let mut number = 0;
        self.0.wanted.send_modify(|wanted| {
            *wanted += 1;
            number = *wanted;
        });
        let _in_time_or_not = timeout(LOOK, met.wait_for(|met| *met >= number)).await;
    }

    /// The wishes to look so far.
    pub fn wanted(&self) -> u64 {
        *self.0.wanted.borrow()
    }

    /// Waits until there are more wishes than these.
    pub async fn until_wanted(&self, before: u64) {
        let mut wanted = self.0.wanted.subscribe();
        let _never_closed = wanted.wait_for(|wanted| *wanted > before).await;
    }

    /// These wishes were met.
    pub fn meet(&self, wanted: u64) {
        self.0.met.send_replace(wanted);
    }
}
