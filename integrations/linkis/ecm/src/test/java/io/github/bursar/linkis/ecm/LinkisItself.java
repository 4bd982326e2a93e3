package io.github.bursar.linkis.ecm;

import org.apache.linkis.common.ServiceInstance;
import org.junit.jupiter.api.Assumptions;

/** Tells Linkis's own classes from the stubs that the adapter is compiled against without them. */
final class LinkisItself {
  private LinkisItself() {}

  /** Leaves a test out that needs the behaviour of Linkis's classes. */
  static void isNeeded() {
    boolean stub = false;
    try {
      new ServiceInstance().setInstance("host:1");
    } catch (UnsupportedOperationException e) {
      stub = true;
    }
    Assumptions.assumeFalse(stub, "these are stubs of Linkis");
  }
}
