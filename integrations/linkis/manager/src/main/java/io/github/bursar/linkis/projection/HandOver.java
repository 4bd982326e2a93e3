package io.github.bursar.linkis.projection;

import java.util.HashSet;
import java.util.Set;
import org.apache.linkis.manager.common.entity.resource.CommonNodeResource;
import org.apache.linkis.manager.common.entity.resource.LoadInstanceResource;
import org.apache.linkis.manager.common.entity.resource.Resource;
import org.apache.linkis.manager.label.constant.LabelKeyConstant;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Makes the rows of ECMs such that stock Linkis can count on with them. Max becomes what the ECM has
 * registered again, as {@link Registered} says. Stock takes off and adds to what is left; while
 * Bursar decides, that is less by what the machine lacks at the moment, and would stay so. What is
 * left is max without what is used and locked, as an ECM registers: stock takes the part that an
 * ECM protects off when it is asked. Rows of users need nothing: stock computes what is left there.
 */
final class HandOver implements Runnable {
  private static final Logger log = LoggerFactory.getLogger(HandOver.class);

  private final LinkisRows rows;
  private final EachOne each = new EachOne("rows of ECMs are not handed over");
  private final Set<String> done = new HashSet<>();

  HandOver(LinkisRows rows) {
    this.rows = rows;
  }

  /** Does it for each row that it has not been done for. */
  @Override
  public void run() {
    each.begin();
    try {
      rows.withKey(LabelKeyConstant.EM_INSTANCE_KEY).forEach((ecm, row) -> {
        if (!done.contains(ecm)) {
          each.run(ecm, () -> handOver(ecm, row));
        }
      });
      each.end();
    } catch (RuntimeException e) {
      log.warn("the rows of ECMs are not handed over: {}", e.toString());
    }
  }

  private void handOver(String ecm, LinkisRows.Row row) {
    // stock holds this lock while it changes the row
    if (!rows.locked(ecm, () -> rows.again(row).ifPresent(this::handOver))) {
      throw new IllegalStateException("another manager has its lock");
    }
    done.add(ecm);
  }

  private void handOver(LinkisRows.Row row) {
    CommonNodeResource r = row.parsed();
    LoadInstanceResource left = Registered.max(r);
    if (left == null) {
      return;
    }
    Registered.putBack(left, r);
    for (Resource taken : new Resource[] {r.getUsedResource(), r.getLockedResource()}) {
      if (taken instanceof LoadInstanceResource) {
        LoadInstanceResource t = (LoadInstanceResource) taken;
        left =
            new LoadInstanceResource(
                left.getMemory() - t.getMemory(), left.getCores() - t.getCores(), left.getInstances() - t.getInstances());
      }
    }
    r.setLeftResource(
        new LoadInstanceResource(Math.max(0, left.getMemory()), Math.max(0, left.getCores()), Math.max(0, left.getInstances())));
    rows.put(row.label, row, r, row.resource.getCreator());
  }
}
