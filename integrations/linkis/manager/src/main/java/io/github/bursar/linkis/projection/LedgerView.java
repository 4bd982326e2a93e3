package io.github.bursar.linkis.projection;

import io.github.bursar.client.Allocation;
import io.github.bursar.client.AllocationFilter;
import io.github.bursar.client.BursarClient;
import io.github.bursar.client.HostInfo;
import io.github.bursar.client.Page;
import io.github.bursar.client.QuotaPage;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;

/**
 * What Bursar says, read at most as often as it changes. Allocations are read again only if the
 * ledger's revision has moved; rules, which may be thousands, take at most a tenth of the time.
 * Not safe for concurrent use.
 */
final class LedgerView {
  private static final int PAGE = 1000;
  private static final long SHARE = 10;

  private final BursarClient bursar;
  private Page<Allocation> read;
  private Map<String, Allocation> live = Collections.emptyMap();
  private QuotaIndex quotas;
  private long quotasRevision;
  private long quotasNotBefore = System.nanoTime();

  LedgerView(BursarClient bursar) {
    this.bursar = bursar;
  }

  /** The live allocations by id: all that are there at the time of the call. */
  Map<String, Allocation> live() {
    if (read == null || revision() != read.revision()) {
      Page<Allocation> all = bursar.allAllocations(AllocationFilter.live().pageSize(PAGE));
      Map<String, Allocation> byId = new HashMap<>(all.items().size() * 2);
      all.items().forEach(a -> byId.put(a.id(), a));
      live = Collections.unmodifiableMap(byId);
      read = all;
    }
    return live;
  }

  private long revision() {
    return bursar.allocations(AllocationFilter.live().pageSize(1), "").revision();
  }

  /** The hosts by id. */
  Map<String, HostInfo> hosts() {
    Map<String, HostInfo> byId = new HashMap<>();
    bursar.allHosts().items().forEach(h -> byId.put(h.id(), h));
    return byId;
  }

  /** What quotas allow, perhaps as of some seconds ago. */
  QuotaIndex quotas() {
    long now = System.nanoTime();
    boolean changed = read == null || quotasRevision != read.revision();
    if (quotas == null || changed && now - quotasNotBefore >= 0) {
      QuotaPage all = bursar.allQuotas();
      quotas = new QuotaIndex(all.quotas(), all.accounts());
      quotasRevision = read == null ? 0 : read.revision();
      long took = System.nanoTime() - now;
      quotasNotBefore = System.nanoTime() + SHARE * took;
    }
    return quotas;
  }
}
