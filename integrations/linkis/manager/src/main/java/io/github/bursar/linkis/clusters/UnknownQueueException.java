package io.github.bursar.linkis.clusters;

/** Bursar does not have the figures that a rule needs. */
public final class UnknownQueueException extends RuntimeException {
  private static final long serialVersionUID = 1;

  private final boolean passes;

  UnknownQueueException(String message, boolean passes) {
    super(message);
    this.passes = passes;
  }

  /** Whether that may be over in a moment: the cluster cannot be read now. */
  public boolean passes() {
    return passes;
  }
}
