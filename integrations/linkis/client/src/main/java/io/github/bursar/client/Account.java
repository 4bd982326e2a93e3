package io.github.bursar.client;

import com.fasterxml.jackson.databind.JsonNode;

/** The state of one thing that limits. */
public final class Account {
  private final AccountName name;
  private final Resource limit;
  private final Resource protectedPart;
  private final Resource used;
  private final Resource reserved;
  private final Resource usedByOthers;
  private final Resource available;
  private final long allocations;
  private final long waiting;
  private final boolean overLimit;

  private Account(JsonNode n) {
    name = AccountName.fromJson(n.path("name"));
    limit = Resource.fromJson(n.path("limit"));
    protectedPart = Resource.fromJson(n.path("protected"));
    used = Resource.fromJson(n.path("used"));
    reserved = Resource.fromJson(n.path("reserved"));
    usedByOthers = Resource.fromJson(n.path("usedByOthers"));
    available = Resource.fromJson(n.path("available"));
    allocations = Json.longOr0(n, "allocations");
    waiting = Json.longOr0(n, "waiting");
    overLimit = n.path("overLimit").asBoolean();
  }

  static Account fromJson(JsonNode n) {
    return new Account(n);
  }

  /** What it limits. */
  public AccountName name() {
    return name;
  }

  /** The most it may give away; what is not set is not limited (on a host: not there). */
  public Resource limit() {
    return limit;
  }

  /** The part of the limit that is never given away ("protected"). */
  public Resource protectedPart() {
    return protectedPart;
  }

  /** What active allocations are entitled to. */
  public Resource used() {
    return used;
  }

  /** What reservations are entitled to. */
  public Resource reserved() {
    return reserved;
  }

  /** What others use in an external queue. */
  public Resource usedByOthers() {
    return usedByOthers;
  }

  /** What a request could get now. */
  public Resource available() {
    return available;
  }

  /** Live allocations that touch it. */
  public long allocations() {
    return allocations;
  }

  /** Requests that wait behind it. */
  public long waiting() {
    return waiting;
  }

  /** More is used than the limit allows. */
  public boolean overLimit() {
    return overLimit;
  }

  @Override
  public String toString() {
    return name + ": limit " + limit + ", used " + used + ", reserved " + reserved + ", available " + available;
  }
}
