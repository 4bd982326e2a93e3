package io.github.bursar.linkis.projection;

import org.apache.linkis.manager.common.entity.resource.CommonNodeResource;
import org.apache.linkis.manager.common.entity.resource.DriverAndYarnResource;
import org.apache.linkis.manager.common.entity.resource.LoadInstanceResource;
import org.apache.linkis.manager.common.entity.resource.Resource;

/**
 * What an ECM has registered as its max, while its row has the host's. Stock Linkis needs it back:
 * if an ECM registers with another max than its row has, stock makes the row anew, with nothing
 * used, whatever runs. It is kept in the row itself, as what is expected: no manager can lose it,
 * and stock only shows that column. An ECM registers with nothing expected, so then it is max.
 */
final class Registered {
  private Registered() {}

  /** What the ECM of a row has registered; null: the row is none of an ECM. */
  static LoadInstanceResource max(CommonNodeResource row) {
    LoadInstanceResource kept = load(row.getExpectedResource());
    boolean none = kept == null || kept.getMemory() == 0 && kept.getCores() == 0 && kept.getInstances() == 0;
    return none ? load(row.getMaxResource()) : kept;
  }

  /** Puts it into a row that Bursar writes. */
  static CommonNodeResource keep(LoadInstanceResource registered, CommonNodeResource row) {
    row.setExpectedResource(registered);
    return row;
  }

  /** Makes it the max of a row again. */
  static void putBack(LoadInstanceResource registered, CommonNodeResource row) {
    row.setMaxResource(registered);
    row.setExpectedResource(new LoadInstanceResource(0, 0, 0));
  }

  private static LoadInstanceResource load(Resource r) {
    if (r instanceof DriverAndYarnResource) {
      return ((DriverAndYarnResource) r).getLoadInstanceResource();
    }
    return r instanceof LoadInstanceResource ? (LoadInstanceResource) r : null;
  }
}
