package io.github.bursar.client;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Objects;

/** The part of a resource that another system grants, such as a queue of YARN. */
public final class ExternalResource {
  private final String kind;
  private final String cluster;
  private final String path;
  private final String partition;
  private final Resource amount;

  private ExternalResource(String kind, String cluster, String path, String partition, Resource amount) {
    this.kind = Objects.requireNonNull(kind, "kind");
    this.cluster = cluster == null ? "" : cluster;
    this.path = Objects.requireNonNull(path, "path");
    this.partition = partition == null ? "" : partition;
    this.amount = Objects.requireNonNull(amount, "amount");
    if (!amount.external().isEmpty()) {
      throw new IllegalArgumentException("amount has external parts: only memory, cpu, instances and custom");
    }
  }

  /**
   * A part.
   *
   * @param kind the kind of its provider, such as "yarn"
   * @param cluster the cluster's configured name; empty: the default one of that kind
   * @param path where in the cluster, such as the full path of a queue
   * @param amount what of it: memory, cpu, instances, custom
   */
  public static ExternalResource of(String kind, String cluster, String path, Resource amount) {
    return new ExternalResource(kind, cluster, path, "", amount);
  }

  /** The same with a partition (a node label); empty is the default one. */
  public ExternalResource withPartition(String partition) {
    return new ExternalResource(kind, cluster, path, partition, amount);
  }

  /** The same place with another amount. */
  public ExternalResource withAmount(Resource amount) {
    return new ExternalResource(kind, cluster, path, partition, amount);
  }

  /** The kind of its provider. */
  public String kind() {
    return kind;
  }

  /** The cluster's name; empty: the default one. */
  public String cluster() {
    return cluster;
  }

  /** Where in the cluster. */
  public String path() {
    return path;
  }

  /** The partition; empty: the default one. */
  public String partition() {
    return partition;
  }

  /** What of it. */
  public Resource amount() {
    return amount;
  }

  boolean samePlace(ExternalResource o) {
    return kind.equals(o.kind) && cluster.equals(o.cluster) && path.equals(o.path) && partition.equals(o.partition);
  }

  ObjectNode toJson() {
    ObjectNode o = amount.toJson();
    o.put("kind", kind).put("path", path);
    Json.putText(o, "cluster", cluster);
    Json.putText(o, "partition", partition);
    return o;
  }

  static ExternalResource fromJson(JsonNode node) {
    ObjectNode amounts = node.isObject() ? ((ObjectNode) node).deepCopy() : Json.object();
    amounts.remove("external");
    return new ExternalResource(
        Json.text(node, "kind"),
        Json.text(node, "cluster"),
        Json.text(node, "path"),
        Json.text(node, "partition"),
        Resource.fromJson(amounts));
  }

  @Override
  public boolean equals(Object o) {
    return o instanceof ExternalResource
        && samePlace((ExternalResource) o)
        && amount.equals(((ExternalResource) o).amount);
  }

  @Override
  public int hashCode() {
    return Objects.hash(kind, cluster, path, partition, amount);
  }

  @Override
  public String toString() {
    return toJson().toString();
  }
}
