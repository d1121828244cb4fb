//! One connection, and how statements travel on it: all that are known are sent before the first answer is read.

use deadpool_postgres::ClientWrapper;
use futures_util::future::join_all;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Error, Row, Statement};

use crate::trouble::Trouble;

/// A value or a column of values whose type in PostgreSQL is known without asking the server.
pub(crate) trait Param: ToSql + Sync + Send {
    /// That type.
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
    Vec<Vec<u8>> => BYTEA_ARRAY, Vec<Option<Lease>> => BYTEA_ARRAY,
}

/// A lease as it is stored.
#[derive(Debug)]
pub(crate) struct Lease(pub(crate) [u8; 16]);

impl ToSql for Lease {
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

/// A statement with its parameters.
pub(crate) struct Step<'a> {
    sql: &'static str,
    params: Vec<Box<dyn ToSql + Sync + Send + 'a>>,
    types: Vec<Type>,
}

impl<'a> Step<'a> {
    /// A statement without parameters yet.
    pub(crate) fn new(sql: &'static str) -> Step<'a> {
        Step { sql, params: Vec::new(), types: Vec::new() }
    }

    /// With the next parameter.
    pub(crate) fn with<P: Param + 'a>(mut self, param: P) -> Step<'a> {
        self.params.push(Box::new(param));
        self.types.push(P::TYPE);
        self
    }
}

/// What one step gave.
pub(crate) type Answer = Result<Vec<Row>, Error>;

/// A connection with the statements it has prepared, or none behind a transaction pooler: there the next transaction
/// may meet another server process.
pub(crate) struct Wire<'c> {
    /// The connection.
    pub(crate) client: &'c ClientWrapper,
    /// Whether statements are prepared.
    pub(crate) prepares: bool,
}

impl Wire<'_> {
    /// Sends the steps without waiting in between, and tells what each gave up to the first that failed.
    pub(crate) async fn send(&self, steps: &[Step<'_>]) -> Result<Vec<Vec<Row>>, Trouble> {
        let mut ready = Vec::with_capacity(steps.len());
        for step in steps {
            ready.push(self.prepared(step).await?);
        }
        let sent = steps.iter().zip(&ready).map(|(step, statement)| self.one(step, statement.as_ref()));
        Ok(join_all(sent).await.into_iter().collect::<Result<Vec<_>, Error>>()?)
    }

    /// Sends one step.
    pub(crate) async fn ask(&self, step: Step<'_>) -> Result<Vec<Row>, Trouble> {
        let statement = self.prepared(&step).await?;
        Ok(self.one(&step, statement.as_ref()).await?)
    }

    async fn prepared(&self, step: &Step<'_>) -> Result<Option<Statement>, Error> {
        if !self.prepares {
            return Ok(None);
        }
        self.client.prepare_typed_cached(step.sql, &step.types).await.map(Some)
    }

    async fn one(&self, step: &Step<'_>, statement: Option<&Statement>) -> Answer {
        match statement {
            Some(statement) => {
                let params: Vec<&(dyn ToSql + Sync)> =
                    step.params.iter().map(|param| &**param as _).collect();
                self.client.query(statement, &params).await
            }
            None => {
                let params =
                    step.params.iter().zip(&step.types).map(|(param, ty)| (&**param as _, ty.clone()));
                self.client.query_typed(step.sql, &params.collect::<Vec<_>>()).await
            }
        }
    }
}
