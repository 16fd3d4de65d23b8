/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vote on sums that everyone gets: who may step on which sum, and when. A model for Spin 6.5; docs/collective.md has
 * the rules, and the table of planted errors by the clause that each leaves out. check_vote.py runs it.
 *
 * Three workers, which come and go; a coordinator, which crashes and starts again; links that are cut. A round of the
 * model is a step of a run. Left out: shares and coded parts, revocation, who is suspected, digests of the state every few
 * rounds, a lost log, two coordinators at once, and time. When an attempt opens is left open, so runs in which it waits for
 * somebody's load are among these.
 *
 * Properties, by the name that stands at their assertion:
 *   P1  workers that step the same round step on the same sum
 *   P2  that sum is the log's
 *   P3  rounds are stepped one after the other
 *   P4  a run ends with every round stepped by all who live, or with an error, and an error is true
 *   P5  nobody steps on a sum that is not in the log
 *   P6  every state is whole, and of the log's sums
 *   P7  at the commit every voter that is connected has the sum
 *   P8  digests differ only if a sum was wrong
 *   P9  no attempt is given up while somebody present has said that he holds its sum
 *   P10 no error is needed (NOERR)
 *   P11 no committed round is lost (NONOBODY)
 * and, with -DNP, no run is endless (weak fairness; a fault, or giving up faults, is progress).
 *
 * Bounds:     R rounds, A attempts per round, FT faults (FW, FK, FC, FP: kinds), FB wrong digests, FF failing transfers,
 *             CKPT=k: k returns to a checkpoint (without it the run ends with an error)
 * Policy:     PATIENT (attempts begin only when everybody present is up to date)
 * Reductions: NOPRIO (off: the coordinator may dawdle), RAW (off: void sums stay); NODRAIN: a cut loses what has arrived
 *             but is unread
 * Planted:    PLANT1 COMMIT before the log (with ONLYP1: until two workers differ), PLANT2 commit with one holder (with
 *             NOP7 and NOERR: until the run is lost), PLANT3 a new attempt while a holder is present
 * Left out:   NOTERM, NOTAG, NODIGEST (what COMMIT and HELLO name), NOHELD (HELLO without the held sum), NOASIDE,
 *             NOMIN2 (one voter alone may commit; ASIDE1: who can't fetch is set aside with one holder), NOMATCH (answers
 *             are not matched to orders), PRESENTALL (all who are present vote), TORN (a state that is stepped meanwhile
 *             is taken), NOCANCEL (a load outlives its connection), NOLAST (HELLO without the last sum), NOLIMIT
 *             (attempts without a bound)
 * Harmless:   INPLACE (a load overwrites the old state from the start), EARLYVOID (a new attempt at the first FAILED)
 */
#if defined(PLANT1) || defined(PLANT2) || defined(PLANT3)
#define RAW
#endif
#if defined(NOTERM) || defined(NOTAG) || defined(NODIGEST) || defined(NOHELD) || defined(NOASIDE) || defined(ASIDE1)
#define RAW
#endif
#if defined(NOMIN2) || defined(NOLAST) || defined(NOMATCH) || defined(PRESENTALL) || defined(TORN) || defined(NOCANCEL)
#define RAW
#endif
#ifdef EARLYVOID
#define RAW
#endif

#define N 3
#ifndef R
#define R 2     /* rounds */
#endif
#ifndef A
#define A 3     /* attempts per round and life of the coordinator */
#endif
#ifndef FT
#define FT 2    /* faults in all; of which kinds: */
#endif
#ifndef FW
#define FW 9    /* worker crashes (comes back empty, or never), at most */
#endif
#ifndef FK
#define FK 1    /* cuts worker-coordinator (comes back with memory) */
#endif
#ifndef FC
#define FC 9    /* coordinator crashes, at most */
#endif
#ifndef FP
#define FP 1    /* trouble among workers only: an engine may fail, all stay connected */
#endif
#ifndef FB
#define FB 0    /* wrong digests, besides FT */
#endif
#ifndef FF
#define FF 0    /* fetches or loads that fail though the source lives, besides FT */
#endif
#define EMPTY 9

/* A sum is d = 2*uid + wrong. uid stands for the tag (round, term, attempt), all of d for tag and digest. */
#define UID(r,a) (term*(R*A) + ((r)-1)*A + (a))
#define ROUND(d) ((((d)/2 - 1) / A) % R + 1)
#ifdef NOTERM
#define TAG(d) ((((d)/2 - 1) % (R*A)) + 1)
#else
#define TAG(d) ((d)/2)
#endif
/* is the sum x the one that COMMIT d names? */
#ifdef NOTAG
#define SAME(x,d) ((x) != 0 && ROUND(x) == ROUND(d))
#else
#ifdef NODIGEST
#define SAME(x,d) ((x) != 0 && TAG(x) == TAG(d))
#else
#define SAME(x,d) ((x) != 0 && (x) == (d))
#endif
#endif

mtype = { SIGNAL, FETCH, COMMIT, LOAD, HELLO, STATE, HELD, FAILED, FETCHED, NOFETCH };
chan c2w[N] = [3] of { mtype, byte, byte };          /* order, sum or round, group or source */
chan w2c[N] = [4] of { mtype, byte, byte, byte };    /* answer, rounds stepped, sum of the last step, sum held or meant */

/* coordinator, durable */
byte lc;            /* rounds committed */
byte lg[R+1];       /* lg[r]: the sum committed for round r */
byte term;          /* goes up at each start (and each return to a checkpoint) */
#ifdef CKPT
byte ckr, ckh[R+1], rw;  /* checkpoint: its round and sums; returns to it */
#endif

/* coordinator, memory */
#define ABS 0       /* not present */
#define LRN 1       /* present, behind the log, no order out */
#define OF  2       /* FETCH out */
#define OL  3       /* LOAD out */
#define OC  4       /* COMMIT out */
#define RDY 5       /* present, has stepped lc rounds */
byte cs[N];
byte cn[N];         /* rounds stepped, as told */
byte ch[N];         /* sum held, as told */
#define V0 0        /* no voter of this attempt */
#define VW 1        /* asked, no answer yet */
#define VF 2        /* FAILED */
#define VG 3        /* FAILED, and then the fetch too */
#define VH 4        /* HELD, or FETCHED */
#define VX 5        /* FETCH out */
byte vote[N];
byte ph;            /* 1: an attempt is open */
byte cur;           /* its sum (2*uid) */
byte att, bad;      /* attempts of this round; in a row with differing digests */
#ifdef PLANT1
byte pl;
#endif

/* links */
bool acc[N];        /* the coordinator's connection lives */
bool br[N];         /* the worker's connection is broken; it has not come back */
bool dead[N];       /* for good */

/* worker, memory */
byte n[N];          /* rounds stepped; EMPTY: no state */
byte hs[N*R];       /* the state: the sum of each round stepped */
byte hu[N];         /* the sum in memory: held, or kept after the step */
#define RUN 1
byte tk[N], td[N], tx[N];       /* engine runs; its sum; its group */
#ifdef NOCANCEL
bool lk[N]; byte lx[N], ln[N];
#endif

/* environment */
bool ahit;          /* a fault has touched the attempt cur */
byte cg, cm;        /* the group of cur; who has begun it */
byte ft, fw, fb, ff;
byte hit;           /* how many workers have been hit */
#define E_LINKS 1
#define E_DIGEST 2
#define E_NOBODY 3
byte err;           /* the run has ended with a clear error */
#ifdef ONLYP1
byte gs[R+1];
#endif
#ifdef SHORT            /* for a search in breadth */
#define hidden
#endif
hidden byte an, al, ah, k, g;   /* used within d_steps only */
hidden mtype hm;

#define BIT(i) (1<<(i))
#define ANYV(x) (vote[0]==x || vote[1]==x || vote[2]==x)
#define ANYCS(x) (cs[0]==x || cs[1]==x || cs[2]==x)
#define VD(i,j) (vote[i]==VH && vote[j]==VH && ch[i]!=ch[j])
#define DIFFER (VD(0,1) || VD(0,2) || VD(1,2))
#define SL(i) ((n[i]==0 || n[i]==EMPTY) -> 0 : hs[(i)*R+n[i]-1])

/* Symmetry: faults and wrong digests first hit the workers in the order 0, 1, 2; any run is such a run renamed. */
#define HITTABLE(i) (i<=hit)
#define HIT(i) hit=(i==hit -> hit+1 : hit)

/* The coordinator acts on what it knows at once: acting later looks like orders that are slow or lost on the way.
   When it opens an attempt, or gives up, is left open. -DNOPRIO: everything in any order. */
#define FETCHABLE(i) (ch[0]==lg[cn[i]+1] || ch[1]==lg[cn[i]+1] || ch[2]==lg[cn[i]+1])
#define HOLDS(i) (cn[i]<lc && SAME(ch[i],lg[cn[i]+1]))
#ifdef CKPT
#define SOURCE (ANYCS(RDY) || ckr==lc)
#else
#define SOURCE ANYCS(RDY)
#endif
#define CANHELP(i) (cs[i]==LRN && (HOLDS(i) || SOURCE || (cn[i]<lc && FETCHABLE(i))))
#define HV(i) (vote[i]==VH)
#define NV(i) (vote[i]!=V0)
#define DV(i) (dead[i] && cs[i]==ABS)
#define NHELD (HV(0)+HV(1)+HV(2))
#define VOTERS (NV(0)+NV(1)+NV(2))
#define LONELY (DV(0)+DV(1)+DV(2) >= N-1)      /* the grace for others to return is over */
/* who should fetch the sum of the open attempt: a voter who failed; an up-to-date onlooker, should the only voter hold it;
   a voter whose fetch failed, once there is a second holder */
#ifdef ASIDE1
#define SECOND (NHELD>=1)
#else
#define SECOND (NHELD>=2)
#endif
#ifdef NOMIN2
#define TWO true
#define ONLOOKER(i) false
#else
#define TWO (NHELD>=2 || LONELY)
#define ONLOOKER(i) (vote[i]==V0 && cs[i]==RDY && VOTERS==1)
#endif
#define ASKFETCH(i) (ph==1 && ANYV(VH) && !DIFFER && (vote[i]==VF || ONLOOKER(i)))
#ifdef NOASIDE
#define ASKAGAIN(i) false
#define HOLDERFAILS false
#else
#define ASKAGAIN(i) (ph==1 && vote[i]==VG && SECOND && !DIFFER)
#define HOLDERFAILS (NHELD==1 && !SECOND && !ANYV(VF) && ANYV(VG))   /* the only holder can pass it to nobody */
#endif
#define ACT_V(i) (ASKFETCH(i) || ASKAGAIN(i))
#define ANSWERED (ph==1 && !ANYV(VW) && !ANYV(VX))
#ifdef PRESENTALL
#define IN(i) (cs[i]==ABS || vote[i]==VH)
#define ALLHELD (ANSWERED && !DIFFER && ANYV(VH) && IN(0) && IN(1) && IN(2))
#else
#ifdef PLANT2
#define ALLHELD (ph==1 && !DIFFER && ANYV(VH))
#else
#define ALLHELD (ANSWERED && !DIFFER && ANYV(VH) && !ANYV(VF) && !ANYV(VG) && TWO)
#endif
#endif
#ifdef PLANT3
#define NONEHELD (ANSWERED && (ANYV(VF) || ANYV(VG) || !ANYV(VH)))
#else
#ifdef EARLYVOID
#define NONEHELD (ph==1 && (NHELD==0 || HOLDERFAILS) && ((!ANYV(VW) && !ANYV(VX)) || ANYV(VF)))
#else
#define NONEHELD (ANSWERED && (NHELD==0 || HOLDERFAILS))
#endif
#endif
#ifdef NOPRIO
#define ACTS false
#else
#define ACTS (CANHELP(0) || CANHELP(1) || CANHELP(2) || ACT_V(0) || ACT_V(1) || ACT_V(2) || (ANSWERED && DIFFER) || NONEHELD || ALLHELD)
#endif

/* ---- helpers, all inside atomic ---- */
inline flush_c2w(i) { do :: len(c2w[i])>0 -> c2w[i]?_,_,_ :: len(c2w[i])==0 -> break od; skip }
inline flush_w2c(i) { do :: len(w2c[i])>0 -> w2c[i]?_,_,_,_ :: len(w2c[i])==0 -> break od; skip }
inline order(i,o1,o2,o3) { printf("C to %d: %e %d %d, link %d\n",i,o1,o2,o3,acc[i]); if :: acc[i] -> assert(len(c2w[i])<3); c2w[i]!o1,o2,o3 :: !acc[i] fi }
inline answer(i,o1,o2) { printf("%d to C: %e %d, has stepped %d\n",i,o1,o2,n[i]); if :: !br[i] -> assert(len(w2c[i])<4); w2c[i]!o1,n[i],SL(i),o2 :: br[i] fi }
inline lost(i) { cs[i]=ABS; vote[i]=V0; ch[i]=0; cn[i]=EMPTY }
inline idle(i) { tk[i]=0; td[i]=0; tx[i]=0 }
inline blank(i) { n[i]=EMPTY; hu[i]=0; for (k : 0 .. R-1) { hs[i*R+k]=0 } k=0 }
/* take over the state of x as it was after q rounds */
inline take(i,x,q) { n[i]=q; hu[i]=0; for (k : 0 .. R-1) { hs[i*R+k]=(k<q -> hs[x*R+k] : 0) } k=0 }
inline novote() { vote[0]=V0; vote[1]=V0; vote[2]=V0 }

/* Sums and engines of attempts that are void change nothing any more, as no tag is used twice: forget them at once, to have
   fewer states. -DRAW keeps them; so do all planted errors. */
#ifdef RAW
#define FORGET skip
#define VOIDCUR skip
#else
#define VOIDCUR cur=0
#define VOID(x) ((x)!=0 && (x)!=lg[ROUND(x)] && !(ph==1 && (x)/2==cur/2))
#define RUNS(i) (tk[i]==RUN && td[i]==cur)
inline forget1(i) { hu[i]=(VOID(hu[i]) -> 0 : hu[i]); ch[i]=(VOID(ch[i]) -> 0 : ch[i]);
	if :: tk[i]==RUN && td[i]!=cur -> idle(i) :: else fi }
#define FORGET forget1(0); forget1(1); forget1(2); if :: ph==0 && !RUNS(0) && !RUNS(1) && !RUNS(2) -> cur=0; cg=0; cm=0; ahit=0 :: else fi
#endif

/* A link is cut: what either side has received but not read may still be read, or not; what is sent from now on is lost. */
inline cut(i) {
	if :: !acc[i] -> flush_w2c(i) :: acc[i] fi;
#ifdef NODRAIN
	flush_w2c(i); flush_c2w(i);
#endif
	acc[i]=0; br[i]=1
}
inline told(i) {        /* (rounds stepped, last sum, held sum) = (an, al, ah) */
	cn[i]=an; ch[i]=ah; vote[i]=V0;
	if
#ifdef NOLAST
	:: an!=EMPTY && an>lc ->
#else
	:: an!=EMPTY && (an>lc || (an>0 && al!=lg[an])) ->
#endif
#ifdef CKPT
		cn[i]=EMPTY                     /* of a history that was left: must load */
#else
#ifndef ONLYP1
		assert(false)                   /* P2: nor is P5 kept: a state that is not the log's */
#endif
#endif
	:: else ->
#ifndef ONLYP1
		for (k : 0 .. R-1) { assert(!(an!=EMPTY && k<an && n[i]==an && hs[i*R+k]!=lg[k+1])) }   /* P6: the whole state is the log's */
		k=0
#endif
	fi;
	if
	:: cn[i]==lc -> cs[i]=RDY;
		if :: ph==1 && ah!=0 && TAG(ah)==TAG(cur) -> vote[i]=VH :: else fi
	:: else -> cs[i]=LRN
	fi
}
inline step(i,sd) {
	assert(ROUND(sd)==n[i]+1);                                   /* P3 */
#ifdef ONLYP1
	assert(gs[ROUND(sd)]==0 || gs[ROUND(sd)]==sd);               /* P1: elsewhere it follows from P2 and P5 */
	gs[ROUND(sd)]=sd;
#else
#ifdef CKPT
	assert(br[i] || (ROUND(sd)<=lc && lg[ROUND(sd)]==sd));       /* P2: cut off, one may step on a history that was left */
#else
	assert(ROUND(sd)<=lc);                                       /* P5 */
	assert(lg[ROUND(sd)]==sd);                                   /* P2 */
#endif
#endif
	n[i]=n[i]+1; hs[i*R+n[i]-1]=sd; printf("%d steps round %d on %d\n",i,n[i],sd)
}

/* ---- coordinator: what concerns worker i ---- */
proctype Coord(byte i) provided (err==0)
{	byte j;
end:	do
	:: d_step { !ACTS && nempty(w2c[i]) ->
		w2c[i]?hm,an,al,ah; printf("C hears from %d: %e %d\n",i,hm,ah);
		if
		:: hm==HELLO -> lost(i); acc[i]=1;
#ifdef NOHELD
			ah=0;
#endif
			told(i)
		:: hm==STATE -> if :: cs[i]==OL || cs[i]==OC -> told(i) :: else fi
#ifdef NOMATCH
		:: hm==HELD || hm==FETCHED ->
			if
			:: cs[i]==ABS -> skip
			:: else -> ch[i]=ah;
				if
				:: cs[i]==RDY && ph==1 && TAG(ah)==TAG(cur) -> vote[i]=VH
				:: cs[i]==OF -> cs[i]=LRN
				:: else
				fi
			fi
		:: hm==FAILED || hm==NOFETCH ->
			if
			:: cs[i]==OF -> cs[i]=LRN
			:: cs[i]==RDY && ph==1 && TAG(ah)==TAG(cur) && (vote[i]==VW || vote[i]==VX) -> vote[i]=(hm==NOFETCH -> VG : VF)
			:: else
			fi
#else
		/* an answer counts for the order that is out; HELD unasked (he came back while the engine ran) if none is */
		:: hm==HELD ->
			if
			:: cs[i]==RDY && ph==1 && TAG(ah)==TAG(cur) && (vote[i]==VW || vote[i]==V0) -> ch[i]=ah; vote[i]=VH
			:: cs[i]==LRN -> ch[i]=ah
			:: else
			fi
		:: hm==FAILED -> if :: cs[i]==RDY && ph==1 && TAG(ah)==TAG(cur) && vote[i]==VW -> vote[i]=VF :: else fi
		:: hm==FETCHED ->
			if
			:: cs[i]==RDY && ph==1 && TAG(ah)==TAG(cur) && vote[i]==VX -> ch[i]=ah; vote[i]=VH
			:: cs[i]==OF -> ch[i]=ah; cs[i]=LRN
			:: else
			fi
		:: hm==NOFETCH ->
			if
			:: cs[i]==RDY && ph==1 && TAG(ah)==TAG(cur) && vote[i]==VX -> vote[i]=VG
			:: cs[i]==OF -> cs[i]=LRN
			:: else
			fi
#endif
		fi; hm=0; an=0; al=0; ah=0; FORGET }
	/* the loss of a connection is noticed; what it still held is dropped */
	:: d_step { !ACTS && cs[i]!=ABS && !acc[i] && !(w2c[i]?[HELLO,_,_,_]) ->
		lost(i); printf("C notices loss of %d\n",i);
		do :: len(w2c[i])>0 && !(w2c[i]?[HELLO,_,_,_]) -> w2c[i]?_,_,_,_ :: len(w2c[i])==0 || w2c[i]?[HELLO,_,_,_] -> break od; skip }
	/* attempt: who failed fetches from a holder */
	:: atomic { ACT_V(i) ->
		if :: vote[0]==VH -> j=0 :: vote[1]==VH -> j=1 :: vote[2]==VH -> j=2 fi;
		vote[i]=VX; order(i,FETCH,ch[j],j); j=0 }
	/* ... or is set aside for this round, once a fetch has failed and there are two holders */
	:: d_step { ASKAGAIN(i) -> vote[i]=V0 }
	/* behind: COMMIT to who holds the sum of his next round */
	:: d_step { cs[i]==LRN && HOLDS(i) -> cs[i]=OC; order(i,COMMIT,lg[cn[i]+1],0) }
	/* behind: fetch that sum */
	:: atomic { cs[i]==LRN && cn[i]<lc && !HOLDS(i) && FETCHABLE(i) ->
		if :: ch[0]==lg[cn[i]+1] -> j=0 :: ch[1]==lg[cn[i]+1] -> j=1 :: ch[2]==lg[cn[i]+1] -> j=2 fi;
		cs[i]=OF; order(i,FETCH,lg[cn[i]+1],j); j=0 }
	/* behind: load the state */
	:: atomic { cs[i]==LRN && SOURCE && !HOLDS(i) ->
		if
		:: cs[0]==RDY -> j=0
		:: cs[1]==RDY -> j=1
		:: cs[2]==RDY -> j=2
#ifdef CKPT
		:: ckr==lc && !ANYCS(RDY) -> j=N
#endif
		fi;
		cs[i]=OL; order(i,LOAD,lc,j); j=0 }
	od
}

#ifdef PATIENT  /* a policy: attempts begin only when everybody present is up to date */
#define UPTD(i) (cs[i]==ABS || cs[i]==RDY)
#define MAYOPEN (UPTD(0) && UPTD(1) && UPTD(2))
#else
#define MAYOPEN true
#endif
#ifdef NOMIN2
#define ENOUGH ANYCS(RDY)
#define MAYLEAVE(i) (att>0 && cs[i]==RDY && UPS>=2)
#else
#define ENOUGH (UPS>=2 || (UPS==1 && LONELY))
#define MAYLEAVE(i) (att>0 && cs[i]==RDY && UPS>=3)
#endif
#define UP(i) (cs[i]==RDY)
#define UPS (UP(0)+UP(1)+UP(2))
#define HAS(i) (cs[i]==RDY || (cs[i]!=ABS && cn[i]+1==lc && SAME(ch[i],lg[lc])))
#define BUSY(i) (cs[i]==OF || cs[i]==OL || cs[i]==OC)
#define BACK(i) ((dead[i] && cs[i]==ABS) || (acc[i] && empty(w2c[i]) && empty(c2w[i]) && tk[i]==0))
#define TRULY(i) (!dead[i] && ((n[i]==lc && SL(i)==lg[lc]) || (n[i]+1==lc && hu[i]==lg[lc])))

#ifdef CKPT
#define NOCKPT ((lc==0 || rw==CKPT) && ckr!=lc)
#else
#define NOCKPT true
#endif

/* ---- coordinator: attempts and the log ---- */
proctype Main() provided (err==0)
{	byte lo;
end:	do
	:: atomic { ph==0 && lc<R && ENOUGH && MAYOPEN && !ACTS ->
		if
#ifdef NOLIMIT
		:: att==A -> att=0
#else
		:: att==A -> err=E_LINKS
#endif
		:: else ->
			lo=N;
			if      /* after a failure one may be left out */
			:: true
			:: MAYLEAVE(0) -> lo=0
			:: MAYLEAVE(1) -> lo=1
			:: MAYLEAVE(2) -> lo=2
			fi;
			d_step {
			att++; cur=2*UID(lc+1,att); printf("C opens attempt %d of round %d: %d\n",att,lc+1,cur);
			g=0; ahit=0; cm=0;
			for (k : 0 .. N-1) { if :: cs[k]==RDY && k!=lo -> g=g|BIT(k); if :: !acc[k] -> ahit=1 :: else fi :: else fi }
			for (k : 0 .. N-1) { if :: g & BIT(k) -> vote[k]=VW; ch[k]=0; order(k,SIGNAL,cur,g) :: else fi }
			ph=1; cg=g; lo=0; g=0; k=0; FORGET }
		fi }
	:: d_step { ANSWERED && DIFFER ->
#ifndef ONLYP1
		assert(fb>0);                           /* P8: only if a sum was wrong */
#endif
		bad++; ph=0; novote(); printf("void: digests differ\n");
		if :: bad==3 -> err=E_DIGEST :: else fi;
		VOIDCUR; FORGET }
	:: d_step { NONEHELD ->
		/* an attempt that is given up: nobody present has said that he holds its sum */
		for (k : 0 .. N-1) { assert(HOLDERFAILS || !(acc[k] && cs[k]==RDY && hu[k]!=0 && hu[k]/2==cur/2 && ch[k]==hu[k])) } /* P9 */
		k=0; ph=0; bad=0; novote(); printf("void: nobody holds it\n"); VOIDCUR; FORGET }
	:: d_step { ALLHELD ->
		if :: vote[0]==VH -> k=0 :: vote[1]==VH -> k=1 :: else -> k=2 fi;
#ifdef PLANT1
		pl=ch[k]; ph=2;
		for (k : 0 .. N-1) { if :: vote[k]==VH -> cs[k]=OC; order(k,COMMIT,pl,0) :: else fi }
		novote() }
	:: d_step { ph==2 -> lc++; lg[lc]=pl; pl=0; printf("LOG round %d: %d\n",lc,lg[lc]); ph=0; att=0; bad=0;
		for (k : 0 .. N-1) {
			if :: cs[k]==RDY -> cs[k]=LRN :: cs[k]==LRN && cn[k]==lc -> cs[k]=RDY :: else fi
		} k=0 }
#else
		lc++; lg[lc]=ch[k]; printf("LOG round %d: %d\n",lc,lg[lc]);
		for (k : 0 .. N-1) {
#if !defined(NOP7) && !defined(ONLYP1)
			if :: vote[k]!=V0 && acc[k] -> assert(hu[k]==lg[lc]) :: else fi;   /* P7: every voter still connected has it */
#endif
			if :: cs[k]==RDY -> cs[k]=LRN :: else fi
		}
		novote(); ph=0; att=0; bad=0; k=0; FORGET }
#endif
	/* nobody has the last committed round */
#ifdef CKPT
	:: d_step { ph==0 && lc>0 && !ACTS && !HAS(0) && !HAS(1) && !HAS(2) && !BUSY(0) && !BUSY(1) && !BUSY(2) && rw<CKPT ->
		rw++; term++; printf("C goes back\n"); att=0; bad=0; cur=0; lc=ckr;
		for (k : 0 .. N-1) { if :: cs[k]!=ABS && cn[k]!=EMPTY && cn[k]>lc -> lc=cn[k] :: else fi }
		for (k : lc+1 .. R) { lg[k]=0 }
		for (k : 0 .. N-1) { if :: cs[k]==LRN && cn[k]==lc -> cs[k]=RDY :: else fi }
		k=0; FORGET }
	/* a worker writes the checkpoint */
	:: d_step { ckr<lc && !ACTS && ((!dead[0] && acc[0] && cs[0]==RDY && n[0]==lc) || (!dead[1] && acc[1] && cs[1]==RDY && n[1]==lc) || (!dead[2] && acc[2] && cs[2]==RDY && n[2]==lc)) ->
		if :: !dead[0] && cs[0]==RDY && n[0]==lc && acc[0] -> g=0 :: !dead[1] && cs[1]==RDY && n[1]==lc && acc[1] -> g=1 :: else -> g=2 fi;
		for (k : 1 .. lc) { ckh[k]=hs[g*R+k-1] } k=0; g=0; ckr=lc }
#endif
	:: d_step { ph==0 && !ACTS && !HAS(0) && !HAS(1) && !HAS(2) && !BUSY(0) && !BUSY(1) && !BUSY(2) && BACK(0) && BACK(1) && BACK(2) && NOCKPT ->
		assert(!TRULY(0) && !TRULY(1) && !TRULY(2));       /* P4 */
		err=E_NOBODY }
	od
}

/* ---- worker ---- */
proctype Worker(byte i) provided (err==0 && !ACTS)
{	byte d, x; mtype m;
end:	do
	:: atomic { !dead[i] && nempty(c2w[i]) ->
		c2w[i]?m,d,x; printf("%d does %e %d %d\n",i,m,d,x);
		idle(i);
		if
		:: m==SIGNAL -> assert(n[i]==ROUND(d)-1);
			hu[i]=0; tk[i]=RUN; td[i]=d; tx[i]=x;
			if :: d==cur -> cm=cm|BIT(i) :: else fi
		/* a FETCH or a LOAD lasts from the order to this step */
		:: m==FETCH ->
			if
			:: hu[i]==d -> answer(i,FETCHED,d)
			:: hu[i]!=d && !dead[x] && hu[x]==d -> hu[i]=d; answer(i,FETCHED,d)
			:: hu[i]!=d && !dead[x] && hu[x]==d && ff<FF -> ff++; answer(i,NOFETCH,d)
			:: hu[i]!=d && (dead[x] || hu[x]!=d) -> answer(i,NOFETCH,d)
			fi
		:: m==COMMIT ->
			if :: n[i]+1==ROUND(d) && SAME(hu[i],d) -> step(i,hu[i]) :: else fi;
			answer(i,STATE,hu[i])
#ifdef CKPT
		:: m==LOAD && x==N -> d_step { n[i]=ckr; hu[i]=0; for (k : 0 .. R-1) { hs[i*R+k]=(k<ckr -> ckh[k+1] : 0) } k=0 };
			answer(i,STATE,hu[i])
#endif
		:: m==LOAD && x<N ->
#ifdef NOCANCEL
			lk[i]=1; lx[i]=x; ln[i]=d
#else
			if
			:: !dead[x] && n[x]!=EMPTY && n[x]>=d -> d_step { take(i,x,d) }        /* as it was at the order */
			:: !dead[x] && n[x]!=EMPTY && n[x]>d -> d_step { take(i,x,n[x]) }      /* as it is now */
			:: dead[x] || n[x]!=d || ff<FF ->                                      /* lost, torn, or it just fails */
				if :: !dead[x] && n[x]==d -> ff++ :: else fi;
#ifdef TORN
				assert(dead[x] || n[x]==EMPTY || n[x]<=d);                     /* P6: a torn state is taken */
#endif
#ifdef INPLACE
				d_step { blank(i) }
#endif
			fi;
			answer(i,STATE,hu[i])
#endif
		fi; m=0; d=0; x=0;
		d_step { FORGET } }
#ifdef NOCANCEL /* a load goes on whatever else happens */
	:: d_step { lk[i] && !dead[lx[i]] && n[lx[i]]!=EMPTY && n[lx[i]]>=ln[i] -> take(i,lx[i],ln[i]); lk[i]=0; lx[i]=0; ln[i]=0; answer(i,STATE,hu[i]) }
	:: d_step { lk[i] && (dead[lx[i]] || n[lx[i]]==EMPTY) -> lk[i]=0; lx[i]=0; ln[i]=0; answer(i,STATE,hu[i]) }
#endif
	/* the engine: success once all have begun, failure only after a fault */
	:: atomic { tk[i]==RUN && (td[i]!=cur || (cm & tx[i])==tx[i]) ->
		d=td[i];
		if :: true :: fb<FB && HITTABLE(i) -> fb++; HIT(i); d=d+1 fi;
		hu[i]=d; idle(i); answer(i,HELD,d); d=0;
		d_step { FORGET } }
	:: d_step { tk[i]==RUN && (td[i]!=cur || ahit) -> answer(i,FAILED,td[i]); idle(i); FORGET }
	/* the loss of the connection is noticed; come back */
	:: d_step { br[i] && !dead[i] ->
		flush_c2w(i); br[i]=0;
		assert(len(w2c[i])<4); printf("%d to C: HELLO, stepped %d, holds %d\n",i,n[i],hu[i]); w2c[i]!HELLO,n[i],SL(i),hu[i] }
	od
}

/* ---- faults ---- */
#define CRASHABLE(i) (HITTABLE(i) && !dead[i])
#define CUTTABLE(i) (HITTABLE(i) && !br[i])
proctype Env() provided (err==0 && !ACTS)
{	byte e;
end:	do
#if FW
	:: atomic { ft<FT && fw<FW && (CRASHABLE(0) || CRASHABLE(1) || CRASHABLE(2)) -> ft++; fw=(FW<FT -> fw+1 : 0);
		if :: CRASHABLE(0) -> e=0 :: CRASHABLE(1) -> e=1 :: CRASHABLE(2) -> e=2 fi;
		d_step { printf("CRASH of %d\n",e); HIT(e); blank(e); idle(e); flush_c2w(e); cut(e); ahit=ahit || (cg & BIT(e)) };
		if :: dead[e]=1 :: true fi; e=0 }
#endif
#if FK
	:: atomic { ft<FT && (CUTTABLE(0) || CUTTABLE(1) || CUTTABLE(2)) -> ft++;
		if :: CUTTABLE(0) -> e=0 :: CUTTABLE(1) -> e=1 :: CUTTABLE(2) -> e=2 fi;
		d_step { printf("CUT of %d\n",e); HIT(e); cut(e); ahit=ahit || (cg & BIT(e)) }; e=0 }
#endif
#if FC
	:: d_step { ft<FT && term<FC -> ft++; term++; printf("CRASH of C, starts again\n");   /* the coordinator crashes and starts again */
		for (e : 0 .. N-1) { lost(e); flush_w2c(e); cut(e) }
#ifdef PLANT1
		pl=0;
#endif
		e=0; ph=0; cur=0; att=0; bad=0; cg=0; cm=0; ahit=0; FORGET }
#endif
#if FP
#ifdef NOLIMIT  /* without end, too */
	:: d_step { ft<FT && ph==1 && !ahit -> ahit=1; printf("TROUBLE among the workers\n") }
#else
	:: d_step { ft<FT && ph==1 && !ahit -> ft++; ahit=1; printf("TROUBLE among the workers\n") }
#endif
#endif
#ifdef NP
	:: ft<FT -> ft=FT
#endif
	od
}

#define DONE(i) (dead[i] || (n[i]==R && SL(i)==lg[R]))
proctype Check()
{
#ifdef NOERR
end:	timeout -> assert(err==0)               /* P10 */
#elif defined(NONOBODY)
end:	timeout -> assert(err!=E_NOBODY)        /* P11 */
#elif defined(CKPT)
end:	timeout -> assert(err || (dead[0] && dead[1] && dead[2]) || (lc==R && DONE(0) && DONE(1) && DONE(2)))  /* P4 */
#else
end:	timeout -> assert(err || (lc==R && DONE(0) && DONE(1) && DONE(2)))      /* P4 */
#endif
}

init { atomic {
	byte e;
	for (e : 0 .. N-1) { cs[e]=RDY; acc[e]=1 }
	run Coord(0); run Coord(1); run Coord(2); run Main();
	run Worker(0); run Worker(1); run Worker(2); run Env(); run Check()
} }
