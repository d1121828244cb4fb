//! One connection with pipelining: all statements that are known are sent before the first reply is read.

use deadpool_postgres::ClientWrapper;
use futures_util::future::join_all;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Error, Row, Statement};

use crate::error::PgError;

/// A value or a column of values whose PostgreSQL type is known without a query.
pub(crate) trait Param: ToSql + Sync + Send {
    const TYPE: Type;
}

macro_rules! params {
    ($($rust:ty => $type:ident,)*) => { $(impl Param for $rust { const TYPE: Type = Type::$type; })* };
}

params! {
    i64 => INT8, i32 => INT4, Option<i64> => INT8, Vec<i64> => INT8_ARRAY, Option<Vec<i64>> => INT8_ARRAY, Vec<Option<i64>> => INT8_ARRAY,
    Vec<i32> => INT4_ARRAY, Vec<Option<i32>> => INT4_ARRAY,
    Vec<i16> => INT2_ARRAY, Vec<Option<i16>> => INT2_ARRAY,
    Vec<bool> => BOOL_ARRAY, Vec<Option<bool>> => BOOL_ARRAY,
    String => TEXT, &str => TEXT, Option<&str> => TEXT, Option<String> => TEXT,
    Vec<String> => TEXT_ARRAY, Vec<Option<String>> => TEXT_ARRAY,
    Vec<&str> => TEXT_ARRAY, Vec<Option<&str>> => TEXT_ARRAY,
    Vec<Vec<u8>> => BYTEA_ARRAY, Vec<Option<LeaseBytes>> => BYTEA_ARRAY,
}

/// The stored form of a lease.
#[derive(Debug)]
pub(crate) struct LeaseBytes(pub(crate) [u8; 16]);

impl ToSql for LeaseBytes {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        self.0.as_slice().to_sql(ty, out)
    }

    fn accepts(ty: &Type) -> bool {
        <&[u8] as ToSql>::accepts(ty)
    }

    to_sql_checked!();
}

/// A statement with its encoded parameters. It owns its data, so it may be sent while the sources change.
pub(crate) struct Step {
    sql: &'static str,
    params: Vec<Encoded>,
    types: Vec<Type>,
}

impl Step {
    /// A statement without parameters.
    pub(crate) fn new(sql: &'static str) -> Step {
        Step { sql, params: Vec::new(), types: Vec::new() }
    }

    /// Adds the next parameter.
    #[allow(clippy::needless_pass_by_value)] // nearly all are made for this call
    pub(crate) fn with<P: Param>(mut self, param: P) -> Step {
        let mut bytes = BytesMut::new();
        self.params.push(match param.to_sql(&P::TYPE, &mut bytes) {
            Ok(IsNull::No) => Encoded::Bytes(bytes),
            Ok(IsNull::Yes) => Encoded::Null,
            Err(error) => Encoded::Unfit(error.to_string()),
        });
        self.types.push(P::TYPE);
        self
    }
}

/// A parameter in PostgreSQL's binary form.
#[derive(Debug)]
enum Encoded {
    Null,
    Bytes(BytesMut),
    /// The value cannot be encoded; the error is reported when the step is sent.
    Unfit(String),
}

impl ToSql for Encoded {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Encoded::Null => Ok(IsNull::Yes),
            Encoded::Bytes(bytes) => {
                out.extend_from_slice(bytes);
                Ok(IsNull::No)
            }
            Encoded::Unfit(why) => Err(why.clone().into()),
        }
    }

    /// A step's statement is prepared with the types of its parameters.
    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// The result of one step.
pub(crate) type Answer = Result<Vec<Row>, Error>;

/// A connection with its prepared statements. Behind a transaction pooler there are none, because the next
/// transaction may use another server process.
pub(crate) struct Wire<'c> {
    pub(crate) client: &'c ClientWrapper,
    pub(crate) prepares: bool,
}

impl Wire<'_> {
    /// Sends the steps without waiting in between, and returns the result of each up to the first that failed.
    pub(crate) async fn send(&self, steps: &[Step]) -> Result<Vec<Vec<Row>>, PgError> {
        self.send_prepared(steps, &self.prepare(steps).await?).await
    }

    /// Prepares the statements for [`Wire::send_prepared`].
    pub(crate) async fn prepare(&self, steps: &[Step]) -> Result<Vec<Option<Statement>>, PgError> {
        let mut ready = Vec::with_capacity(steps.len());
        for step in steps {
            ready.push(self.prepared(step).await?);
        }
        Ok(ready)
    }

    /// Sends all steps when it is first polled.
    pub(crate) async fn send_prepared(
        &self,
        steps: &[Step],
        ready: &[Option<Statement>],
    ) -> Result<Vec<Vec<Row>>, PgError> {
        let sent = steps.iter().zip(ready).map(|(step, statement)| self.one(step, statement.as_ref()));
        Ok(join_all(sent).await.into_iter().collect::<Result<Vec<_>, Error>>()?)
    }

    pub(crate) async fn ask(&self, step: Step) -> Result<Vec<Row>, PgError> {
        let statement = self.prepared(&step).await?;
        Ok(self.one(&step, statement.as_ref()).await?)
    }

    async fn prepared(&self, step: &Step) -> Result<Option<Statement>, Error> {
        if !self.prepares {
            return Ok(None);
        }
        self.client.prepare_typed_cached(step.sql, &step.types).await.map(Some)
    }

    async fn one(&self, step: &Step, statement: Option<&Statement>) -> Answer {
        match statement {
            Some(statement) => {
                let params: Vec<&(dyn ToSql + Sync)> = step.params.iter().map(|param| param as _).collect();
                self.client.query(statement, &params).await
            }
            None => {
                let params = step.params.iter().zip(&step.types).map(|(param, ty)| (param as _, ty.clone()));
                self.client.query_typed(step.sql, &params.collect::<Vec<_>>()).await
            }
        }
    }
}
