package io.github.bursar.linkis.quota;

import io.github.bursar.client.BursarClient;
import io.github.bursar.client.BursarException;
import io.github.bursar.client.FieldViolation;
import io.github.bursar.client.Quota;
import io.github.bursar.client.QuotaChanges;
import io.github.bursar.client.Resource;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps Bursar's quota rules in step with Linkis's configuration.
 *
 * <p>The rules have the source {@value #SOURCE}: Bursar lets nobody else change them. A selector
 * that has a rule from somewhere else is left to that rule. Several managers may do this at the
 * same time: all write the same. Not safe for concurrent use.
 */
final class QuotaImport implements Runnable {
  static final String SOURCE = "import:linkis";
  /** Most rules of a set, as Bursar's API has it. */
  private static final int MAX_RULES = 10_000;
  /** Most of the 1 MiB that Bursar takes in a request. */
  private static final int MAX_BYTES = 1_000_000;
  /** Most that a rule takes there without its names. */
  private static final int RULE_BYTES = 350;
  /** How many rules of a set are given up, one after the other, before the rest waits for the next time. */
  private static final int MAX_REFUSED = 50;
  private static final Pattern PLACE = Pattern.compile("^quotas\\[(\\d+)]");
  private static final Logger log = LoggerFactory.getLogger(QuotaImport.class);

  /** Where the configuration is read. */
  interface Configuration {
    Collection<ConfigurationRow> read() throws Exception;
  }

  private final Configuration configuration;
  private final BursarClient bursar;
  private final Map<String, String> builtIn;
  private final long millisPerCore;
  private final Set<String> said = new HashSet<>();

  QuotaImport(Configuration configuration, BursarClient bursar, Map<String, String> builtIn, long millisPerCore) {
    this.configuration = configuration;
    this.bursar = bursar;
    this.builtIn = builtIn;
    this.millisPerCore = millisPerCore;
  }

  /** Imports once. What goes wrong is said once, and tried again the next time. */
  @Override
  public void run() {
    try {
      once();
      said.removeIf(text -> text.startsWith("failed: "));
    } catch (Exception e) {
      if (said.add("failed: " + e)) {
        log.warn("Linkis's configuration is not imported, the rules in Bursar stay as they are: {}", e.toString());
      }
    }
  }

  private void once() throws Exception {
    QuotaRules made = new QuotaRules(configuration.read(), builtIn, millisPerCore);
    List<Quota> rules = made.rules();
    made.warnings().forEach(this::warnOnce);

    Map<Map<String, String>, Quota> known = new HashMap<>();
    for (Quota q : bursar.allQuotas().quotas()) {
      if (q.hidden().isEmpty() || q.source().equals(SOURCE)) {
        known.put(q.selector(), q);
      }
    }
    rules.removeIf(rule -> {
      Quota other = known.get(rule.selector());
      boolean theirs = other != null && !other.source().equals(SOURCE);
      if (theirs) {
        warnOnce("quota " + rule.selector() + " has a rule of " + other.source() + ": Linkis's is left out, " + rule.limit());
      }
      return theirs;
    });
    int fit = fitting(rules);
    if (fit < rules.size()) {
      warnOnce("not all rules of Linkis's configuration fit in one request to Bursar: the last " + (rules.size() - fit) + " are left out");
      rules = rules.subList(0, fit);
    }
    apply(rules, known);
  }

  /** How many of the rules, from the first, fit in a request. */
  private static int fitting(List<Quota> rules) {
    int bytes = 0;
    for (int i = 0; i < rules.size(); i++) {
      bytes += RULE_BYTES;
      for (String name : rules.get(i).selector().values()) {
        bytes += name.getBytes(StandardCharsets.UTF_8).length;
        bytes += (int) name.chars().filter(c -> c == '"' || c == '\\').count();
      }
      if (bytes > MAX_BYTES || i >= MAX_RULES) {
        return beginOfUser(rules, i);
      }
    }
    return rules.size();
  }

  /** Where the rules of this one's user begin: without some of them others would tie. */
  private static int beginOfUser(List<Quota> rules, int i) {
    String user = rules.get(i).selector().get("user");
    while (!user.equals(ConfigurationRow.ANY) && i > 0 && rules.get(i - 1).selector().get("user").equals(user)) {
      i--;
    }
    return i;
  }

  private void apply(List<Quota> rules, Map<Map<String, String>, Quota> known) {
    for (int refused = 0; !same(rules, known); refused++) {
      try {
        QuotaChanges changes = bursar.applyQuotas(SOURCE, rules, true, false, true);
        log.info(
            "imported Linkis's configuration: {} quota rules added, {} changed, {} removed, {} as before",
            changes.added().size(), changes.changed().size(), changes.deleted().size(), changes.unchanged());
        return;
      } catch (BursarException e) {
        int i = placeOf(e);
        if (i < 0 || i >= rules.size() || refused >= MAX_REFUSED) {
          throw e;
        }
        warnOnce("quota " + rules.get(i).selector() + " of Linkis is left out: " + e.getMessage());
        rules = new ArrayList<>(rules);
        rules.remove(i);
      }
    }
  }

  /** Which rule of the set is refused; -1 if it is none. */
  private static int placeOf(BursarException e) {
    for (FieldViolation f : e.fieldViolations()) {
      Matcher m = PLACE.matcher(f.field());
      if (m.find()) {
        return Integer.parseInt(m.group(1));
      }
    }
    return -1;
  }

  /** Whether Bursar has these rules of ours already, and no others of ours. */
  private static boolean same(List<Quota> rules, Map<Map<String, String>, Quota> known) {
    long ours = known.values().stream().filter(q -> q.source().equals(SOURCE)).count();
    if (ours != rules.size()) {
      return false;
    }
    for (Quota rule : rules) {
      Quota has = known.get(rule.selector());
      if (has == null || !has.source().equals(SOURCE) || !has.limit().equals(rule.limit())) {
        return false;
      }
    }
    return true;
  }


  private void warnOnce(String text) {
    if (said.add(text)) {
      log.warn(text);
    }
  }
}
