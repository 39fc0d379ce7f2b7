"""The cluster and its only broker."""

from __future__ import annotations

from delta_log.model.quoting import quoted
from ingest_api.routes.v3.context import CLUSTER, answers, reading
from ingest_api.routes.v3.shapes import Broker, Cluster, Listed, View
from ingest_api.web.context import ServerContext
from ingest_api.web.errors import Refusal
from ingest_api.web.forwarded import address_of
from ingest_api.web.request import Call, Reply, json_reply
from ingest_api.web.route_spec import Operation


def operations(tier: ServerContext) -> list[Operation]:
    """List the routes of this module."""

    async def list_clusters(_: Call, view: View) -> Reply:
        return json_reply(view.clusters())

    async def describe_cluster(_: Call, view: View) -> Reply:
        return json_reply(view.cluster())

    async def list_brokers(call: Call, view: View) -> Reply:
        return json_reply(view.listed("KafkaBroker", "/brokers", [_broker(tier, call, view)]))

    async def describe_broker(call: Call, view: View) -> Reply:
        check_broker(tier, call)
        return json_reply(_broker(tier, call, view))

    brokers = f"{CLUSTER}/brokers"
    return [
        reading(
            tier, "/v3/clusters", "list_clusters", "List the clusters", list_clusters,
            answers(Listed[Cluster], "The only one."),
        ),
        reading(
            tier, CLUSTER, "describe_cluster", "Describe the cluster", describe_cluster,
            answers(Cluster, "The cluster."),
        ),
        reading(
            tier, brokers, "list_brokers", "List the brokers", list_brokers,
            answers(Listed[Broker], "The only one."),
        ),
        reading(
            tier, brokers + "/{broker}", "describe_broker", "Describe a broker", describe_broker,
            answers(Broker, "The broker, under the address that the request was sent to."),
        ),
    ]  # fmt: skip


def check_broker(tier: ServerContext, call: Call) -> None:
    """Refuse an unknown broker."""
    if call.path["broker"] != str(tier.settings.broker_id):
        raise Refusal(404, f"there is no broker {quoted(call.path['broker'], 40)}")


def _broker(tier: ServerContext, call: Call, view: View) -> Broker:
    address = address_of(call.scope, tier.settings.trusted_proxies)
    return view.broker(address.host, address.port)
