//! The jobs that have a place in one bucket. There may be very many buckets, most of which have one or two jobs at a
//! time: those are stored inline, so that adding and removing a job does not access other memory.

use crate::id::IdMap;
use crate::id::JobId;

/// How many are stored inline.
const FEW: usize = 2;

/// The place of one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub weight: u32,
    /// The job whose place it has borrowed; none: it has a separate place.
    pub on: Option<JobId>,
    /// The job that has borrowed its place.
    pub lent_to: Option<JobId>,
}

impl Place {
    /// A separate place that is not lent.
    pub fn alone(weight: u32) -> Place {
        Place { weight, on: None, lent_to: None }
    }

    pub fn is_alone(self) -> bool {
        self.on.is_none() && self.lent_to.is_none()
    }
}

/// The holders of a bucket. See the module's documentation.
#[derive(Clone, Debug)]
pub(super) enum Holders {
    /// Each has a separate place that is not lent.
    Few([Option<(JobId, u32)>; FEW]),
    /// Used once there were more, or one has lent its place, until none is left.
    Many(Box<IdMap<JobId, Place>>),
}

impl Default for Holders {
    fn default() -> Holders {
        Holders::Few([None; FEW])
    }
}

impl Holders {
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    pub fn get(&self, id: JobId) -> Option<Place> {
        match self {
            Holders::Few(few) => few_of(few).find(|(known, _)| *known == id).map(|(_, place)| place),
            Holders::Many(many) => many.get(&id).copied(),
        }
    }

    /// Gives a job this place.
    pub fn insert(&mut self, id: JobId, place: Place) {
        if let Holders::Few(few) = self
            && place.is_alone()
            && let Some(at) = (few.iter().position(|slot| slot.is_some_and(|(known, _)| known == id)))
                .or_else(|| few.iter().position(Option::is_none))
        {
            few[at] = Some((id, place.weight));
            return;
        }
        self.many().insert(id, place);
    }

    pub fn remove(&mut self, id: JobId) -> Option<Place> {
        match self {
            Holders::Few(few) => {
                let slot = few.iter_mut().find(|slot| slot.is_some_and(|(known, _)| known == id))?;
                slot.take().map(|(_, weight)| Place::alone(weight))
            }
            Holders::Many(many) => {
                let place = many.remove(&id);
                if many.is_empty() {
                    *self = Holders::default();
                }
                place
            }
        }
    }

    /// A place to change.
    pub fn get_mut(&mut self, id: JobId) -> Option<&mut Place> {
        self.get(id)?;
        self.many().get_mut(&id)
    }

    /// All of them, in unspecified order.
    pub fn iter(&self) -> impl Iterator<Item = (JobId, Place)> {
        let (few, many) = match self {
            Holders::Few(few) => (Some(few_of(few)), None),
            Holders::Many(many) => (None, Some(many.iter().map(|(&id, &place)| (id, place)))),
        };
        few.into_iter().flatten().chain(many.into_iter().flatten())
    }

    fn many(&mut self) -> &mut IdMap<JobId, Place> {
        if let Holders::Few(few) = self {
            *self = Holders::Many(Box::new(few_of(few).collect()));
        }
        match self {
            Holders::Many(many) => many,
            Holders::Few(_) => unreachable!("it was made many"),
        }
    }
}

fn few_of(few: &[Option<(JobId, u32)>; FEW]) -> impl Iterator<Item = (JobId, Place)> {
    few.iter().flatten().map(|&(id, weight)| (id, Place::alone(weight)))
}
